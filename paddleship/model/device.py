"""Where training runs, and in which precision. Not tested on a GPU."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from paddleship.config.sections.train import Train
from paddleship.errors import ParamsError


def use(settings: Train) -> str:
    """Set Paddle's device to train.device. Returns its name. Raises ParamsError if there is none, or if it has no such precision."""
    import paddle

    gpus = paddle.device.cuda.device_count() if paddle.is_compiled_with_cuda() else 0
    name = settings.device
    if name == "auto":
        name = "gpu:0" if gpus else "cpu"
    elif name != "cpu" and int(name.partition(":")[2]) >= gpus:
        why = f"it has {gpus}" if gpus else "it finds none" if paddle.is_compiled_with_cuda() else "it is built for the CPU"
        advice = "set it to auto or cpu, or install Paddle's GPU build (docs/how-to/gpu.md)"
        raise ParamsError(f"train.device is {name!r}, and Paddle has no such GPU ({why}): {advice}")
    if settings.amp and not _computes(settings.amp, name):
        raise ParamsError(f"train.amp is {settings.amp!r}, and {name} does not train in it (a GPU may): set it to false")
    paddle.set_device(name)
    if name != "cpu":
        print(f"train: {name}" + (f", mixed precision with {settings.amp}" if settings.amp else ""))
    return name


def _computes(dtype: str, device: str) -> bool:
    """Whether Paddle trains in this precision there. On a CPU, auto_cast does nothing."""
    import paddle

    supported = {"bfloat16": paddle.amp.is_bfloat16_supported, "float16": paddle.amp.is_float16_supported}
    return device != "cpu" and bool(supported[dtype]())


def casting(settings: Train) -> AbstractContextManager[Any]:
    """The context in which forward and loss of a training step are computed."""
    import paddle

    return paddle.amp.auto_cast(dtype=settings.amp, level="O1") if settings.amp else nullcontext()
