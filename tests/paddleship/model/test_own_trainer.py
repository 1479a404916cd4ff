"""train.source: {own: module:function}: a trainer of the user's, its stop, and how it continues."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

from paddleship.config import loading
from paddleship.errors import BadInput, ModelError
from paddleship.model import building
from tasks.prepare import prepare
from tasks.train import train
from tests import small_linear

TRAINERS = '''
import time

import paddle


def main(job, epochs=20):
    """A loop that saves each epoch, continues from what it saved, and stops when it is asked to."""
    optimizer = paddle.optimizer.Adam(0.1, parameters=job.layer.parameters())
    saved, first = job.folder / "last.pdparams", 0
    if saved.exists():
        state = paddle.load(str(saved))
        job.layer.set_state_dict(state["model"])
        first = state["epoch"]
        print(f"continuing after epoch {first}")
    for epoch in range(first, epochs):
        for arguments, labels in job.batches("train", 8, seed=epoch):
            loss = nn.functional.mse_loss(job.layer(*arguments), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        job.log({"loss": loss.item()})
        paddle.save({"model": job.layer.state_dict(), "epoch": epoch + 1}, str(saved))
        if job.stop.is_set():
            return saved
    return saved


def slow(job):
    main(job, epochs=2)
    print("waiting", flush=True)
    while not job.stop.is_set():
        time.sleep(0.02)


def in_place(job):
    job.layer.set_state_dict({"weight": np.array([[1.0], [-1.0]], "float32"), "bias": np.zeros(1, "float32")})


def state(job):
    return {"weight": np.array([[1.0], [-1.0]], "float32"), "bias": paddle.zeros([1])}


def trains(job):
    assert job.layer.training
    in_place(job)


def replaces(job):
    job.layer = build()


def diverges(job):
    job.layer.set_state_dict({"weight": np.array([[np.nan], [-1.0]], "float32"), "bias": np.zeros(1, "float32")})


def nowhere(job):
    return job.folder / "none.pdparams"


def forks(job):
    """A child that is told to end does so at once, whatever it waits for."""
    import multiprocessing
    import signal

    context = multiprocessing.get_context("fork")
    theirs, ours = context.Pipe(duplex=False)
    child = context.Process(target=lambda: (ours.send(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL), time.sleep(600)))
    child.start()
    assert theirs.recv(), "a handler in Python runs only after a call that waits"
    # Not before: Python drops a signal that comes while it forks.
    child.terminate()
    child.join(120)
    assert child.exitcode == -15, child.exitcode
    in_place(job)


def number(job):
    return 3


def peeks(job):
    next(job.batches("test", 8))


def breaks(job):
    raise RuntimeError("no memory")

'''


@pytest.fixture
def values(tmp_path, monkeypatch):
    """The values of params.yaml of a linear model whose rows are prepared, with this trainer."""
    small_linear.write(tmp_path, "their_trainer", f"{small_linear.SOURCE}\n{TRAINERS}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def of(name, **settings):
        return small_linear.values("their_trainer", source={"own": f"their_trainer:{name}", **settings}, min_score=0.9)

    prepare(loading.parse(of("main")))
    yield of
    sys.modules.pop("their_trainer", None)


@pytest.mark.parametrize("name", ["in_place", "state", "trains"])
def test_the_weights_are_those_of_the_layer_or_what_the_function_returns(values, tmp_path, name):
    report = train(loading.parse(values(name)))
    assert report.verdict, report.verdict.failures
    assert report.headline.startswith("test r2 1.0000 (mean ")
    assert report.headline.endswith(f" with the weights of their_trainer:{name}")
    assert np.array_equal(load_file(tmp_path / "models/checkpoint" / building.WEIGHTS)["weight"], [[1], [-1]])


def test_a_loop_logs_its_epochs_and_returns_a_checkpoint_and_what_it_saved_on_the_way_is_removed(values, tmp_path):
    report = train(loading.parse(values("main", kwargs={"epochs": 30})))
    assert report.verdict, report.verdict.failures
    assert report.metrics["epochs"] == len(report.facts["history"]) == 30
    assert set(report.facts["history"][0]) == {"loss"}
    assert json.loads((tmp_path / "models/checkpoint" / building.FACTS).read_text())["trainer"] == "their_trainer:main"
    assert not (tmp_path / "models/checkpoint.unfinished").exists()


def stage(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-m", "tasks.train"]
    return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_stage_that_is_ended_lets_the_trainer_save_and_continues_with_the_same_params_only(values, tmp_path):
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values("slow")))
    process = stage(tmp_path)
    while "waiting" not in (line := process.stdout.readline()):
        assert line, "it ended"
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert "stopped: their_trainer:slow was asked to end" in process.communicate(timeout=300)[0]
    assert process.returncode == 143
    assert not (tmp_path / "models/checkpoint/seal.json").exists()
    (kept,) = (tmp_path / "models/checkpoint.unfinished").iterdir()
    assert (kept / "last.pdparams").exists()

    process = stage(tmp_path)
    lines = []
    while "waiting" not in (line := process.stdout.readline()):
        assert line, lines
        lines.append(line)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    assert "continuing after epoch 2\n" in lines

    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values("main", kwargs={"epochs": 30})))
    done = stage(tmp_path)
    output = done.communicate(timeout=300)[0]
    assert done.returncode == 0, output
    assert "continuing" not in output
    assert not kept.parent.exists()


def test_a_process_that_the_trainer_forks_ends_at_sigterm(values, tmp_path):
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values("forks")))
    process = stage(tmp_path)
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 0, output


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("number", "returned int: return None, the path of a checkpoint, or a state dict"),
        ("peeks", "the test rows are for the score of the finished model"),
        (
            "breaks",
            "the trainer 'their_trainer:breaks' failed (RuntimeError: no memory at ",
        ),
        ("none_such", "none_such"),
        ("replaces", "replaced job.layer: train that layer in place"),
        ("diverges", "holds NaN or infinity in 'weight'"),
        ("nowhere", "none.pdparams' cannot be read (it does not exist): correct the path"),
    ],
)
def test_a_trainer_that_cannot_be_used_is_one_line(values, name, message):
    with pytest.raises(ModelError) as refused:
        train(loading.parse(values(name)))
    assert message in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_trainer_outside_the_watched_code_is_refused(values, tmp_path):
    (tmp_path / "elsewhere.py").write_text("def main(job): ...")
    params = values("main")
    params["train"]["source"]["own"] = "elsewhere:main"
    with pytest.raises(BadInput, match=r"train.source.own 'elsewhere:main' is in .*, which is not below code.watch"):
        train(loading.parse(params))
