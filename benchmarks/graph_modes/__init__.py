"""Compare graph modes: one network with the same weights and data, in every mode of Paddle and PyTorch.

`paddle_dynamic`, `paddle_static` and `torch_modes` hold the code that a person writes for each mode. They import their framework at
module level, and are imported only in the child process that runs the mode.
"""
