"""Class scores from the chemical analysis of a wine."""

from paddle import nn


def build(analyses: int, width: int, classes: int) -> nn.Layer:
    return nn.Sequential(nn.Linear(analyses, width), nn.ReLU(), nn.Linear(width, classes))
