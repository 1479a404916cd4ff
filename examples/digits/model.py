"""A convolution network for pictures of 28 × 28 pixels that trains in half a minute on two cores."""

import paddle
from paddle import nn


def build(width: int = 16, classes: int = 10, dropout: float = 0.3) -> nn.Layer:
    return nn.Sequential(
        nn.Conv2D(1, width, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2D(width, 2 * width, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * width * 7 * 7, classes),
    )


class Field(nn.Layer):
    """The same beside a number that is known of the picture: the largest digit that its field may hold."""

    def __init__(self, width: int = 16, classes: int = 10, dropout: float = 0.3) -> None:
        super().__init__()
        self.picture = build(width, 32, dropout)
        self.scores = nn.Sequential(nn.Linear(33, 32), nn.ReLU(), nn.Linear(32, classes))

    def forward(self, x: paddle.Tensor, largest: paddle.Tensor) -> paddle.Tensor:
        return self.scores(paddle.concat([self.picture(x), largest.unsqueeze(1)], axis=1))
