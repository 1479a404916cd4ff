"""Models of `paddle.vision.models`, seeded, as classifiers of ten classes, on pictures about as small as each takes."""

from __future__ import annotations

from typing import Any

import paddle

from benchmarks.zoo.specimen import Specimen, floats, specimen

_SIZES = {
    "alexnet": 224,
    "densenet121": 64,
    "googlenet": 192,
    "inception_v3": 75,
    "mobilenet_v1": 64,
    "mobilenet_v2": 64,
    "mobilenet_v3_large": 64,
    "mobilenet_v3_small": 64,
    "resnet18": 64,
    "resnet50": 64,
    "resnext50_32x4d": 64,
    "shufflenet_v2_x0_5": 64,
    "squeezenet1_1": 64,
    "vgg11": 64,
    "wide_resnet50_2": 64,
}


def classifier(name: str) -> Any:
    """The model of that name for ten classes, with random weights."""
    return getattr(paddle.vision.models, name)(num_classes=10)


def lenet() -> Any:
    return paddle.vision.models.LeNet(num_classes=10)


def _named(name: str, size: int) -> Specimen:
    made = specimen(classifier, floats("image", 3, size, size), kwargs={"name": name}, because="a model that people know")
    return Specimen(name, made.model, made.because, proven=made.proven)


SPECIMENS: list[Specimen] = [
    *(_named(name, size) for name, size in _SIZES.items()),
    specimen(lenet, floats("image", 1, 28, 28), because="a model that people know"),
]
