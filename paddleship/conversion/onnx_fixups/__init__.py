"""What paddle2onnx gets wrong or does not know, fixed before and after it."""
