"""paddleship: an eager PaddlePaddle model, proven and shipped."""

__version__ = "0.1.0"
