"""The eager model as a candidate: what its folder holds, that it is built from it alone, and what is a row instead."""

import shutil
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import paddle
import pytest
from paddle import nn
from safetensors.numpy import load_file, save_file

from paddleship.config.sections.code import Code
from paddleship.config.sections.model import Model
from paddleship.conversion import bundle, exporting
from paddleship.conversion.converting import Converter, plan
from paddleship.errors import CandidateError
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel
from paddleship.shipped.computing import layers, runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import sha256
from paddleship.shipped.computing.structure import rebuild
from paddleship.system import isolate
from paddleship.weights.candidate_files import WeightsWorker

REPOSITORY = Path(__file__).parents[5]
INPUTS = [
    {"name": "x", "dtype": "float32", "shape": ["batch", 8]},
    {"name": "ids", "dtype": "int64", "shape": ["batch", "length"], "low": 0, "high": 9},
]
MODEL = """
    from paddle import nn
    from paddle.nn.utils import weight_norm
    import paddle

    from .parts import Head
    from their_eager.parts import scale

    class Nested(nn.Layer):
        def __init__(self, width):
            super().__init__()
            self.table = nn.Embedding(10, 8)
            self.body = weight_norm(nn.Linear(8, width))
            self.norm = nn.BatchNorm1D(width)
            self.drop = nn.Dropout(0.5)
            self.head = Head(width)
            self.drawn = paddle.rand([4])  # no weight, and the same every time because it is seeded

        def forward(self, x, ids):
            from their_eager.parts import SHIFT
            y = self.drop(self.norm(self.body(x + self.table(ids).mean(1))))
            return {"scores": self.head(y) * scale() + self.drawn, "more": [y.sum(), (ids, None, y.t() + SHIFT)]}

    def build(width):
        return Nested(width)
"""
PARTS = """
    from paddle import nn

    SHIFT = 1.0

    class Head(nn.Linear):
        def __init__(self, width):
            super().__init__(width, 4)

    def scale():
        return 2.0
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """Write a package of theirs in a folder on the import path, with what does not belong into a copy beside it."""
    root = tmp_path / "root"
    package = root / "their_eager"
    package.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(root))

    def write(**modules):
        for name, text in {"__init__": "", "model": MODEL, "parts": PARTS, **modules}.items():
            (package / f"{name}.py").write_text(textwrap.dedent(text))
        (root / "their_outside.py").write_text("VALUE = 1\n")
        for name in ("rows.csv", ".secret.py", "native.so", "sub/__pycache__/old.pyc", "env/pyvenv.cfg", "env/lib/other.py"):
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_text("x")
        return Code(root=str(root), watch=str(package))

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] in ("their_eager", "their_outside")]:
        del sys.modules[name]


@pytest.fixture
def source_model_of(theirs, tmp_path):
    """A model of theirs with trained-looking weights, and where its code lies."""

    def make(factory="their_eager.model:build", kwargs=None, inputs=INPUTS, **modules):
        code = theirs(**modules)
        settings = Model(factory=factory, kwargs={"width": 6} if kwargs is None else kwargs, inputs=inputs)
        layer = building.build(settings)
        for part in layer.sublayers(include_self=True):
            if isinstance(part, nn.BatchNorm1D):
                part._mean.set_value(paddle.rand(part._mean.shape))
        building.save(layer, tmp_path / "checkpoint", {})
        return SourceModel(settings, tmp_path / "checkpoint", 3, code)

    return make


@pytest.fixture
def base_of(tmp_path):
    """The candidate that an export would have written, with what eager itself answers."""

    def make(source_model):
        specs = tuple(item.spec() for item in source_model.model.inputs)
        probes = [batch(2), batch(3, length=7), batch(5, length=6)]
        eager = Eager(source_model)
        outputs = exporting.describe_outputs(specs, probes, [eager.run(probe) for probe in probes])
        weights = sha256(source_model.checkpoint / layers.WEIGHTS)
        base = Candidate("paddle", "theirs", "paddle", "float32", 1, specs, outputs, {"kind": "tensors"}, weights, "classification")
        return replace(base, nesting=eager.nesting(probes[0]), sources={"scores": 0}), eager

    return make


@pytest.fixture
def packed(source_model_of, base_of, tmp_path):
    """The candidate's folder, and the model that it was made of."""

    def make(target="packed", **settings):
        source_model = source_model_of(**settings)
        base, eager = base_of(source_model)
        packer, folder = bundle.Packer(source_model), tmp_path / target
        folder.mkdir()
        packer(tmp_path, folder, ())
        packer.describe(plan("paddle-eager", base, threads=1)).save(folder)
        return folder, eager

    return make


def batch(size, length=5):
    random = np.random.default_rng(size)
    return {"x": random.normal(size=(size, 8)).astype(np.float32), "ids": random.integers(0, 10, (size, length))}


def test_a_candidate_answers_as_eager_does_with_its_nesting_in_any_size(packed):
    folder, eager = packed()
    loaded, candidate = runtimes.load(folder), Candidate.load(folder)
    for asked in (batch(1), batch(7, length=2)):
        answer, expected = loaded.run(asked), eager.run(asked)
        assert list(answer) == list(expected) == ["scores", "more.0", "more.1.0", "more.1.2"]
        for name, array in expected.items():
            assert (answer[name].shape, answer[name].dtype) == (array.shape, array.dtype)
            assert answer[name].flags.c_contiguous
            np.testing.assert_array_equal(answer[name], array)
        nested = rebuild(candidate.nesting, answer)
        assert isinstance(nested["more"], list)
        assert nested["more"][1][1] is None


def test_the_folder_holds_python_sources_and_weights_and_stays_as_it_was(packed):
    folder, _ = packed()
    runtimes.load(folder).run(batch(2))
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    code = {f"code/their_eager/{name}.py" for name in ("__init__", "model", "parts")}
    assert found == {"candidate.json", "weights.safetensors", *code}
    assert set(Candidate.load(folder).files) == found - {"candidate.json"}


def test_it_is_built_where_the_place_it_was_written_in_is_gone(packed, theirs, tmp_path):
    folder, eager = packed()
    shutil.rmtree(tmp_path / "root")
    with isolate.Isolated("the candidate", runtimes.load, folder, timeout_s=100) as child:
        np.testing.assert_array_equal(child.call("run", batch(2))["scores"], eager.run(batch(2))["scores"])


@pytest.mark.parametrize("harm", [lambda path: path.write_text("print('harm')\n"), lambda path: path.unlink()], ids=["changed", "missing"])
def test_code_that_is_not_what_it_was_is_never_run(packed, harm, capsys):
    folder, _ = packed()
    harm(folder / "code/their_eager/parts.py")
    with pytest.raises(CandidateError, match=r"parts\.py changed since .*sha256"):
        runtimes.load(folder)
    assert capsys.readouterr().out == ""


def test_code_that_was_added_is_never_run(packed):
    folder, eager = packed()
    (folder / "code/paddle.py").write_text("raise SystemExit('added')\n")
    (folder / "code/their_eager/parts").mkdir()
    (folder / "code/their_eager/parts/__init__.py").write_text("raise SystemExit('added')\n")
    np.testing.assert_array_equal(runtimes.load(folder).run(batch(2))["scores"], eager.run(batch(2))["scores"])


def test_a_module_of_the_same_name_neither_confuses_nor_is_confused(packed, monkeypatch):
    folder, eager = packed()
    expected = eager.run(batch(2))
    for name in [name for name in sys.modules if name.startswith("their_eager")]:
        monkeypatch.delitem(sys.modules, name)
    other = ModuleType("their_eager")
    other.parts = ModuleType("their_eager.parts")
    monkeypatch.setitem(sys.modules, "their_eager", other)
    monkeypatch.setitem(sys.modules, "their_eager.parts", other.parts)
    answer = runtimes.load(folder).run(batch(2))  # forward imports too
    np.testing.assert_array_equal(answer["more.1.2"], expected["more.1.2"])
    assert sys.modules["their_eager"] is other
    assert "their_eager.model" not in sys.modules
    assert not [finder for finder in sys.meta_path if type(finder).__name__ == "OwnCode"]


def test_two_candidates_of_one_package_keep_to_their_own_code(packed, tmp_path):
    folder, _ = packed()
    shutil.copytree(folder, tmp_path / "later")
    parts = tmp_path / "later/code/their_eager/parts.py"
    parts.write_text(parts.read_text().replace("SHIFT = 1.0", "SHIFT = 11.0"))
    Candidate.load(folder).save(tmp_path / "later")
    one, other = runtimes.load(folder), runtimes.load(tmp_path / "later")
    for _ in range(2):
        apart = other.run(batch(2))["more.1.2"] - one.run(batch(2))["more.1.2"]
        np.testing.assert_allclose(apart, 10, rtol=1e-5)


def test_weights_that_do_not_fit_the_code_are_told(packed):
    folder, _ = packed()
    candidate = Candidate.load(folder)
    replace(candidate, options={**candidate.options, "kwargs": {"width": 7}}).save(folder)
    with pytest.raises(CandidateError, match=r"do not fit its code \(body\.bias"):
        runtimes.load(folder)


def test_weights_that_were_changed_are_found(packed, tmp_path):
    folder, _ = packed()
    candidate, weights = Candidate.load(folder), load_file(folder / layers.WEIGHTS)
    weights["head.weight"] = weights["head.weight"] * np.float32(1.01)
    save_file(weights, folder / layers.WEIGHTS)
    candidate.save(folder)
    (finding,) = WeightsWorker(tmp_path / "checkpoint", tmp_path / "exported").compare(folder).findings
    assert (finding.kind, finding.layer) == ("weights-differ", "head")


def test_as_many_threads_are_used_as_are_allowed(packed, monkeypatch):
    folder, _ = packed()
    asked = []
    monkeypatch.setattr(paddle.framework.core, "set_num_threads", asked.append)
    runtimes.load(folder, thread_count=2).run(batch(2))
    assert asked == [2]


@pytest.fixture
def optimized(source_model_of, base_of, tmp_path):
    """What optimize makes of a model of theirs as `paddle-eager`."""

    def make(code=None, **settings):
        source_model = source_model_of(**settings)
        base, eager = base_of(source_model)
        exported = tmp_path / "exported"
        exported.mkdir()
        base.save(exported)
        converter = Converter(
            exported, tmp_path, threads=1, probe=batch(2), timeout_s=100,
            source_model=replace(source_model, code=code(source_model.code)) if code else source_model,
            requirements=REPOSITORY / "docker/requirements",
        )  # fmt: skip
        return converter.make("paddle-eager", tmp_path / "made"), eager

    return make


def test_optimize_makes_it_as_any_candidate(optimized, tmp_path):
    outcome, eager = optimized()
    assert outcome.made, outcome.reason
    assert outcome.settings == {"threads": 1}
    np.testing.assert_array_equal(runtimes.load(tmp_path / "made").run(batch(3))["scores"], eager.run(batch(3))["scores"])


LACKING = (
    "which is neither in its copy nor in the image: move it below code.watch, or pin its package in docker/requirements/paddle-eager.txt"
)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ("import their_outside\n" + textwrap.dedent(PARTS), f"imports 'their_outside', {LACKING}"),
        ("import pydantic\n" + textwrap.dedent(PARTS), f"imports 'pydantic', {LACKING}"),
        (textwrap.dedent(PARTS).replace("return", "import yaml; return"), f"imports 'yaml', {LACKING}"),
        ("open(__file__[:-8] + 'rows.csv').close()\n" + textwrap.dedent(PARTS), "holds Python files alone (FileNotFoundError"),
    ],
    ids=["a module outside code.watch", "a package that the image lacks", "the same in forward", "a file that is no code"],
)  # fmt: skip
def test_code_that_needs_more_than_its_copy_and_the_image_is_a_row_with_what_to_do(optimized, tmp_path, parts, words):
    outcome, _ = optimized(parts=parts)
    assert words in outcome.reason
    assert not (tmp_path / "made").exists()


def test_what_may_lack_may_lack(optimized):
    outcome, _ = optimized(parts="try:\n    import their_outside\nexcept ImportError:\n    pass\n" + textwrap.dedent(PARTS))
    assert outcome.made, outcome.reason


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (lambda code: Code(root=code.watch, watch=code.root), "is not below code.root"),
        (lambda code: Code(root=code.root, watch=f"{code.watch}/sub"), "holds no Python file"),
        (lambda code: Code(root=code.root, watch=f"{code.root}/their_outside.py"), "imports 'their_eager'"),
    ],
    ids=["outside the root", "without code", "another module"],
)
def test_a_watch_that_does_not_hold_the_model_is_a_row(optimized, code, words):
    outcome, _ = optimized(code=code)
    assert words in outcome.reason


def test_kwargs_that_cannot_be_written_down_are_a_row(optimized):
    changed = MODEL.replace("def build(width)", "def build(width, sizes)")
    outcome, _ = optimized(model=changed, kwargs={"width": 6, "sizes": {1: 2}})
    assert "model.kwargs {'width': 6, 'sizes': {1: 2}} cannot be kept as JSON" in outcome.reason


def test_a_checkpoint_that_is_not_the_exported_one_is_a_row(source_model_of, base_of, tmp_path):
    source_model = source_model_of()
    base, _ = base_of(source_model)
    with pytest.raises(CandidateError, match=r"the checkpoint \("):
        bundle.Packer(source_model).describe(replace(base, weights_sha256="0" * 64))
