"""The device of training, by stand-ins for Paddle's GPU build: there is no GPU here."""

import paddle
import pytest

from paddleship.config.sections.train import Train
from paddleship.errors import ParamsError
from paddleship.model import device


@pytest.fixture
def chosen(monkeypatch):
    names = []
    monkeypatch.setattr(paddle, "set_device", names.append)
    return names


def gpus(monkeypatch, count, *, built=True, bfloat16=True):
    monkeypatch.setattr(paddle, "is_compiled_with_cuda", lambda: built)
    monkeypatch.setattr(paddle.device.cuda, "device_count", lambda: count)
    monkeypatch.setattr(paddle.amp, "is_bfloat16_supported", lambda: bfloat16)


def test_auto_takes_the_cpu_without_a_gpu_and_says_nothing(chosen, capsys):
    assert device.use(Train()) == "cpu"
    assert (chosen, capsys.readouterr().out) == (["cpu"], "")


def test_auto_takes_a_gpu_that_paddle_has_and_says_so(chosen, capsys, monkeypatch):
    gpus(monkeypatch, 1)
    assert device.use(Train(amp="bfloat16")) == "gpu:0"
    assert (chosen, capsys.readouterr().out) == (["gpu:0"], "train: gpu:0, mixed precision with bfloat16\n")
    assert device.use(Train(device="cpu")) == "cpu"


@pytest.mark.parametrize(
    ("name", "count", "built", "why"),
    [("gpu:0", 0, False, "it is built for the CPU"), ("gpu:0", 0, True, "it finds none"), ("gpu:2", 2, True, "it has 2")],
)
def test_a_gpu_that_is_not_there_is_one_line_with_the_reason(chosen, monkeypatch, name, count, built, why):
    gpus(monkeypatch, count, built=built)
    words = rf"^train.device is '{name}', and Paddle has no such GPU \({why}\): set it to auto or cpu"
    with pytest.raises(ParamsError, match=words) as found:
        device.use(Train(device=name))
    assert found.value.exit_code == 2
    assert chosen == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_precision_is_refused_on_a_cpu(dtype):
    with pytest.raises(ParamsError, match=f"train.amp is '{dtype}', and cpu does not train in it"):
        device.use(Train(amp=dtype))


def test_mixed_precision_is_refused_on_a_gpu_without_it(chosen, monkeypatch):
    gpus(monkeypatch, 1, bfloat16=False)
    with pytest.raises(ParamsError, match=r"train\.amp is 'bfloat16', and gpu:0 does not train in it"):
        device.use(Train(amp="bfloat16"))


def test_float16_scales_the_loss_and_steps_with_the_scaler(monkeypatch):
    """Its gradients would be 0 where they are small."""
    from paddleship.model.optimizing import Optimizer

    calls = []

    class Scaler:
        def scale(self, loss):
            calls.append("scale")
            return loss

        def step(self, optimizer):
            calls.append("step")
            optimizer.step()

        def update(self):
            calls.append("update")

    monkeypatch.setattr(paddle.amp, "GradScaler", Scaler)
    model = paddle.nn.Linear(2, 1)
    before = model.weight.numpy()
    optimizer = Optimizer(model, Train(amp="float16", optimizer="sgd", learning_rate=1.0), 1)
    optimizer.add(model(paddle.ones([1, 2])).sum())
    assert calls == ["scale", "step", "update"]
    assert (model.weight.numpy() != before).all()


def test_another_name_of_a_device_is_refused():
    with pytest.raises(ValueError, match="device"):
        Train(device="cuda")
