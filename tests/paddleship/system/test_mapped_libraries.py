"""Which optional libraries a process has mapped, asked of a real process that maps real libraries."""

import os
import subprocess
import sys
from pathlib import Path

from paddleship.system import mapped_libraries
from tests import plugins

ASK = """
import ctypes, json, sys
from paddleship.system import mapped_libraries
for path in sys.argv[2:]:
    ctypes.CDLL(path)
print(json.dumps(mapped_libraries.of_this_process(["plugins/**/*.so*"])))
"""


def asked(site, *names):
    paths = [str(site / f"plugins/cu13/lib/lib{name}.so.1") for name in names]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), str(site)])}
    done = subprocess.run([sys.executable, "-c", ASK, "-", *paths], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_only_the_libraries_that_the_process_mapped_are_named_by_their_path_below_the_import_path(tmp_path):
    site = plugins.install(tmp_path / "site")
    assert asked(site) == "[]"
    assert asked(site, "first", "late") == '["plugins/cu13/lib/libfirst.so.1", "plugins/cu13/lib/liblate.so.1"]'


def test_a_package_that_is_a_link_to_a_folder_elsewhere_counts_by_its_own_name(tmp_path):
    elsewhere, site = plugins.install(tmp_path / "elsewhere"), tmp_path / "site"
    site.mkdir()
    (site / "plugins").symlink_to(elsewhere / "plugins")
    assert asked(site, "batch") == '["plugins/cu13/lib/libbatch.so.1"]'


def test_without_patterns_nothing_is_named():
    assert mapped_libraries.of_this_process(()) == []
