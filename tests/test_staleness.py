"""What makes a stage run again, as DVC sees it: a checkout in which every stage is up to date, and edits in it.

No stage runs: the outs are small files, and DVC's own `commit` records that each stage has made them from the present deps.
"""

import re
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path

import pytest
from dvc.repo import Repo

from tests import stage_code

BEFORE_PACKAGE = {"prepare", "train", "export", "optimize", "verify", "benchmark"}
SHIPPED = stage_code.REPOSITORY / "paddleship/shipped"
SERVING = [path.relative_to(stage_code.REPOSITORY) for path in sorted((SHIPPED / "serving").rglob("*.py"))]
COMPUTING = [path.relative_to(stage_code.REPOSITORY) for path in sorted((SHIPPED / "computing").rglob("*.py"))]
BESIDE_THE_STAGES = ("promote", "sweep", "drift", "graph_modes", "notify")  # sections that no stage reads


@pytest.fixture(scope="module")
def up_to_date(linear_checkout_of):
    """A checkout in which DVC finds nothing to do, and its open repository."""
    checkout = linear_checkout_of("up_to_date")
    with chdir(checkout), Repo() as repo:
        for stage in repo.index.stages:
            for out in stage.outs:
                path = Path(out.fs_path)
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    path.write_text(f"of {stage.addressing}\n", encoding="utf-8")
        repo.commit(force=True)
        with repo.lock:
            yield checkout, repo


@pytest.fixture
def stale(up_to_date):
    """Which of these stages DVC would run again because of their code or params; by default, all."""

    def ask(*names):
        stages = [stage for stage in up_to_date[1].index.stages if stage.name in (names or stage_code.STAGES)]
        return {stage.name for stage in stages if stage.changed_deps()}

    assert not ask()
    return ask


@contextmanager
def edited(path, text=None):
    before = path.read_text(encoding="utf-8")
    path.write_text(text or before + "\n# edited\n", encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


def test_no_module_of_the_server_makes_a_stage_before_package_stale(up_to_date, stale):
    with ExitStack() as edits:
        for path in SERVING:
            edits.enter_context(edited(up_to_date[0] / path))
        assert stale() == {"package", "accept"}
    for path in SERVING:
        with edited(up_to_date[0] / path):
            assert stale("package") == {"package"}, path


def test_every_module_that_computes_makes_export_and_all_after_it_stale(up_to_date, stale):
    after = set(stage_code.STAGES) - {"prepare", "train"}
    for path in COMPUTING:
        with edited(up_to_date[0] / path):
            assert stale(*after) == after, path


def test_no_runtime_makes_train_stale(up_to_date, stale):
    with ExitStack() as edits:
        for path in (up_to_date[0] / "paddleship/shipped/computing/runtimes").glob("*.py"):
            edits.enter_context(edited(path))
        assert not stale("prepare", "train")


@pytest.mark.parametrize("section", BESIDE_THE_STAGES)
def test_a_new_key_of_a_section_beside_the_stages_makes_no_stage_stale(up_to_date, stale, section):
    checkout = up_to_date[0]
    module, params = checkout / stage_code.SECTIONS / f"{section}.py", checkout / "params.yaml"
    code, count = re.subn(
        r"(?m)^(class \w+\(Section\):\n(?:    \"\"\".*\"\"\"\n\n)?)", r"\1    new_key: int = 1\n", module.read_text(encoding="utf-8")
    )
    values, written = re.subn(rf"(?m)^{section}:\n", f"{section}:\n  new_key: 2\n", params.read_text(encoding="utf-8"))
    assert count >= 1
    assert written == 1
    with edited(module, code), edited(params, values):
        assert not stale()


def test_a_new_key_of_a_stage_makes_no_stage_before_it_stale(up_to_date, stale):
    order = list(stage_code.STAGES)
    for section in ("train", "optimize", "benchmark", "package", "accept"):
        before = {"optimize": "export", "accept": "package"}.get(
            section, section
        )  # export reads optimize.threads, package accept.concurrency
        with edited(up_to_date[0] / stage_code.SECTIONS / f"{section}.py"):
            assert section in stale(section)
            assert not stale(*order[: order.index(before)]), section


def test_how_a_result_is_reported_makes_no_stage_before_package_stale(up_to_date, stale):
    with ExitStack() as edits:
        for name in stage_code.EXEMPT:
            path = up_to_date[0] / name
            for file in path.rglob("*.py") if path.is_dir() else [path]:
                edits.enter_context(edited(file))
        assert not stale() & BEFORE_PACKAGE


def test_what_the_frame_of_all_stages_decides_makes_all_stale(up_to_date, stale):
    for name in stage_code.SHARED:
        with edited(up_to_date[0] / name):
            assert stale() == set(stage_code.STAGES), name
