"""An `.onnx` file as an exported program: its operators are rewritten with Paddle's functions, and become the same table as a `.json`'s."""
