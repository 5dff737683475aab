"""Sizes, tensor types and the model table: plain immutable data, no ONNX, no operators' meaning."""
