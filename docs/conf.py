"""The documentation site: `make docs` builds it and fails on any warning, such as a dead link."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "paddleship"
html_title = "paddleship"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

extensions = ["myst_parser", "generated_pages"]
myst_heading_anchors = 3
nitpicky = True
exclude_patterns = ["_build"]
