"""The documentation: no dead link from outside the site, and complete reference pages. `make docs` checks the links within the site."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from paddleship import errors
from paddleship.reports.order import STAGES
from paddleship.reports.report import Report

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md")]
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([\w-]+))?\)")


def slugs(page):
    """The anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead(path, anchor):
    """Whether a link to this file, or to this heading of it, leads nowhere."""
    return not path.exists() or bool(anchor and anchor not in slugs(path))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_outside_the_site_has_no_dead_link(page):
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not link[0].startswith("http")]
    assert links
    assert [link for link in links if dead(page.parent / link[0] if link[0] else page, link[1])] == []


def test_code_params_and_messages_name_pages_that_exist():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    named = []
    for path in (REPOSITORY / name for name in listed.stdout.splitlines()):
        if path.suffix in (".py", ".yaml", ".yml", ".sh", "") and path.is_file() and path != Path(__file__):
            text = path.read_text(encoding="utf-8", errors="replace")
            named += [(path, *link) for link in re.findall(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", text)]
    assert named
    assert [link for link in named if dead(REPOSITORY / link[1], link[2])] == []


@pytest.fixture
def generated(monkeypatch):
    monkeypatch.syspath_prepend(REPOSITORY / "docs")
    import generated_pages

    return generated_pages


def test_every_param_has_a_row_with_a_meaning(generated):
    text = generated.params()
    assert "| `min_score` | number ≤ 1 or `null` | `null` | `0.8` | gate: least validation accuracy" in text
    assert {"## data", "## model.inputs", "## promote.target", "## At the top level"} <= set(text.splitlines())
    assert not re.search(r"\| *\|", text), "a cell is empty"


def test_every_command_has_its_help(generated):
    headings = set(re.findall(r"^## (.+)$", generated.commands(), re.MULTILINE))
    assert {"run", "doctor", "compare", "compare-graph-modes", "runs prune", "sweep", "promote", "rollback", "drift", "worker"} <= headings
    assert not {"the", "and"} & headings


def test_every_key_of_a_report_is_explained():
    page = (REPOSITORY / "docs/reference/reports.md").read_text(encoding="utf-8")
    assert [key for key in Report.model_fields if f"`{key}`" not in page] == []


def test_every_exit_code_of_an_error_is_explained():
    page = (REPOSITORY / "docs/reference/exit-codes.md").read_text(encoding="utf-8")
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.PaddleshipError)]
    codes = {str(kind.exit_code) for kind in kinds}
    assert {"2", "3", "4"} <= codes <= set(re.findall(r"^\| (\d+) \|", page, re.MULTILINE))


def test_the_readme_is_short_and_its_session_has_every_stage():
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") < 110
    assert re.findall(r"^(\w+) +[\d.]+  ran  passed", text, re.MULTILINE) == list(STAGES)


def test_a_dead_link_fails_the_build(tmp_path):
    (tmp_path / "conf.py").write_text("extensions = ['myst_parser']\nmyst_heading_anchors = 3\n")
    (tmp_path / "index.md").write_text("# Site\n\n[here](#site) [there](nowhere.md)\n")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--builder", "html", str(tmp_path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "nowhere.md" in done.stderr
