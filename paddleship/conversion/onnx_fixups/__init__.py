"""Fixes for conversion errors of paddle2onnx, before and after it runs."""
