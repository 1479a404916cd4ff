"""The experiment of the field: one network, its weights and its data, in every mode that Paddle and PyTorch can run it in.

`paddle_dynamic`, `paddle_static` and `torch_modes` hold the code that a person writes for each mode; they import their
framework at their top and are themselves imported only in the child process that runs the mode.
"""
