"""Linear regression: two features, one target."""

from paddle import nn


def build(features: int) -> nn.Layer:
    return nn.Linear(features, 1)
