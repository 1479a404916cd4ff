"""The house as architecture says it is: what no single module can see of itself."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import grimp
import pytest
import yaml

from tests import stage_code
from tests.stage_code import REPOSITORY, STAGES, source

HELP = """
import runpy, sys
module, sys.argv = sys.argv[1], ["x", "--help"]
try:
    runpy.run_module(module, run_name="__main__")
except SystemExit:
    print(sorted(sys.modules))
"""


@pytest.fixture(scope="module")
def imports():
    return grimp.build_graph("paddleship", "tasks", cache_dir=None, exclude_type_checking_imports=True)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_on_the_code_that_changes_its_result_and_on_no_other(imports, stage):
    """The rule is in tests/stage_code.py. What a stage really runs, and what makes it stale, is asked in tests/e2e/test_pipeline.py."""
    deps, needed = stage_code.deps(stage), stage_code.needed(imports, stage)
    missing = {path for path in needed if not stage_code.is_covered(path, deps)}
    assert not missing, f"add to the deps of {stage} in dvc.yaml: {sorted(map(str, missing))}"
    unused = {dep for dep in deps if not any(stage_code.is_covered(path, [dep]) for path in needed)}
    assert not unused, f"remove from the deps of {stage} in dvc.yaml: {sorted(map(str, unused))}"


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_stage_imports_and_does_not_depend_on_has_a_reason(imports, stage):
    other_sections = {path.relative_to(REPOSITORY) for path in (REPOSITORY / stage_code.SECTIONS).glob("*.py")}
    reasons = {*stage_code.EXEMPT, *stage_code.REPORTED, *other_sections}
    silent = {path for path in stage_code.left_out(imports, stage) if not stage_code.is_covered(path, reasons)}
    assert not silent, f"say why in tests/stage_code.py, or add to the deps of {stage}: {sorted(map(str, silent))}"


def test_what_no_stage_depends_on_is_there_and_in_no_folder_that_a_stage_names():
    for name in (*stage_code.EXEMPT, *stage_code.SHARED):
        assert (REPOSITORY / name).exists(), f"remove {name} from tests/stage_code.py"
    for stage in STAGES:
        named = {dep for dep in stage_code.deps(stage) if not stage_code.is_covered(dep, stage_code.IDENTIFIED.get(stage, ()))}
        covered = {name for name in stage_code.EXEMPT if stage_code.is_covered(Path(name), named)}
        assert not covered, f"{stage} in dvc.yaml names {', '.join(covered)}"


def test_a_computing_stage_depends_on_the_installed_versions_and_the_benchmark_on_the_machine():
    for stage in ("export", "optimize", "verify", "benchmark", "package"):
        assert "${paths.environment}" in STAGES[stage]["deps"]
    assert [name for name, stage in STAGES.items() if "${paths.host}" in stage.get("deps", [])] == ["benchmark"]


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_is_a_verb_that_explains_itself_quickly(stage):
    assert STAGES[stage]["cmd"] == f"python -m tasks.{stage}"
    done = subprocess.run([sys.executable, "-c", HELP, f"tasks.{stage}"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for heavy in ("paddle", "mlflow", "prefect", "dvc", "docker", "matplotlib", "pyarrow", "onnx"):
        assert f"'{heavy}'" not in done.stdout, f"`python -m tasks.{stage} --help` imports {heavy}"


def test_every_deployment_names_a_flow_and_a_work_pool_that_are_there():
    from paddleship.orchestration.deployment import POOLS

    deployments = yaml.safe_load((REPOSITORY / "prefect.yaml").read_text())["deployments"]
    assert {one["work_pool"]["name"] for one in deployments} == set(POOLS)
    for one in deployments:
        path, function = one["entrypoint"].split(":")
        assert f"def {function}(" in (REPOSITORY / path).read_text()
    images = {one["work_pool"]["job_variables"]["image"] for one in deployments if "job_variables" in one["work_pool"]}
    (built,) = re.findall(r"^tag=\$\{1:-(.*)\}$", (REPOSITORY / "infra/train_image.sh").read_text(), re.MULTILINE)
    assert images == {built}


def test_every_stage_reads_only_params_that_exist():
    from paddleship.config.params import Params

    for name, stage in STAGES.items():
        for key in stage["params"]:
            model = Params
            for part in key.split("."):
                assert part in model.model_fields, f"{name} in dvc.yaml asks for {key}"
                model = model.model_fields[part].annotation


def test_stages_are_named_as_in_the_graph_wherever_a_tool_wants_a_list():
    from paddleship.execution.stages import LAST, Until

    assert get_args(Until) == tuple(STAGES), "edit StageName in paddleship/reports/order.py, which the form of the flow is made from"
    assert list(STAGES)[-1] == LAST
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    for name, key in (("One verb never imports another", "modules"),):
        (listed,) = [contract[key] for contract in contracts if contract["name"] == name]
        assert {f"tasks.{stage}" for stage in STAGES} <= set(listed), f"edit the contract {name!r} in pyproject.toml"


def test_a_candidate_is_named_in_the_file_of_its_runtime_and_nowhere_else():
    """The exported program and the eager model apart, which the catalogue names: the pipeline itself is about those two."""
    from paddleship.config import catalogue
    from paddleship.shipped.computing.runtimes import registry

    names = {*registry.kinds(), *registry.found()} - {catalogue.PROGRAM, catalogue.EAGER}
    doors = {source(one.module) for one in registry.found().values() if one.entry_point is None}
    for path in (file.relative_to(REPOSITORY) for part in ("paddleship", "tasks", "flows") for file in (REPOSITORY / part).rglob("*.py")):
        if path not in doors:
            constants = {node.value for node in ast.walk(ast.parse((REPOSITORY / path).read_text())) if isinstance(node, ast.Constant)}
            assert not constants & names, f"{path} names {', '.join(map(str, constants & names))}: ask the registry"


def test_a_preprocess_kind_is_named_in_its_file_and_nowhere_else():
    """In a comparison, a type of literals or the value of a key `kind`, which is how code would tell kinds apart."""
    from paddleship.shipped.computing.preprocess import registry

    files = {source(one.module) for one in registry.ours().values()}
    for path in (file.relative_to(REPOSITORY) for part in ("paddleship", "tasks", "flows") for file in (REPOSITORY / part).rglob("*.py")):
        named = registry.ours().keys() & set(_compared(ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))))
        assert path in files or not named, f"{path} names {', '.join(named)}: ask the encoder, or the registry"


def _compared(tree):
    """The constants that a module compares with, lists in a type of literals, or writes as a kind."""
    for node in ast.walk(tree):
        literal = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal"
        if literal or isinstance(node, ast.Compare | ast.match_case):
            yield from (one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))
        if isinstance(node, ast.Dict):
            yield from (
                value.value
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant) and key.value == "kind" and isinstance(value, ast.Constant)
            )


def test_a_task_kind_and_its_scores_are_named_in_its_two_files_and_nowhere_else():
    from paddleship.data.task_kinds import registry
    from paddleship.shipped.computing.task_kinds import registry as shipped

    kinds = {name: one.registration for name, one in registry.ours().items()}
    assert [*kinds] == [*shipped.ours()], "a task kind is two files with one name"
    scores = [kind.score for kind in kinds.values()]
    known = {(one.name, one.title, one.range, one.share_of_decisions, one.shares is None, one.parts is None) for one in scores}
    assert len(known) == len({one.name for one in scores}), "the name of a score in a report tells how to read it"
    names = {*kinds, *(one.name for one in scores), *(name for kind in kinds.values() for name in kind.further)}
    files = {Path("paddleship", part, "task_kinds", f"{name}.py") for part in ("data", "shipped/computing") for name in kinds}
    for path in (file.relative_to(REPOSITORY) for part in ("paddleship", "tasks", "flows") for file in (REPOSITORY / part).rglob("*.py")):
        if path not in files:
            tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
            constants = {str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)}
            assert not constants & names, f"{path} names {', '.join(constants & names)}: ask the task kind"


def test_every_gate_is_made_to_refuse_in_the_short_form_too():
    assert "mark.long" not in (REPOSITORY / "tests/test_gates.py").read_text()


def test_no_line_of_a_message_is_lost():
    """A string that is a statement of a function, and not its docstring, is the end of a message that lost its parentheses."""
    lost = []
    for path in (file for part in ("paddleship", "tasks", "flows", "benchmarks") for file in (REPOSITORY / part).rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
        docstrings = {id(node.body[0]) for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        for node in (node for function in functions for node in ast.walk(function)):
            text = isinstance(node, ast.Expr) and (
                isinstance(node.value, ast.JoinedStr) or (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str))
            )
            if text and id(node) not in docstrings:
                lost.append(f"{path.relative_to(REPOSITORY)}:{node.lineno}")
    assert not lost


def test_text_is_read_and_written_in_utf8_whatever_the_locale():
    missing = []
    for path in (file for part in ("paddleship", "tasks", "flows", "benchmarks", "examples") for file in (REPOSITORY / part).rglob("*.py")):
        for call in (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)):
            keywords = {keyword.arg for keyword in call.keywords}
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            without_text = (name == "read_text" and not call.args) or (name == "write_text" and len(call.args) == 1)
            if "encoding" not in keywords and (
                ("text" in keywords & {"text"} and name in ("run", "Popen", "check_output")) or without_text
            ):
                missing.append(f"{path.relative_to(REPOSITORY)}:{call.lineno}")
    assert not missing, "name the encoding, because the default is that of the locale"
