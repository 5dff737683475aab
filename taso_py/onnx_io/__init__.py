"""The two borders: ONNX model -> table (`load`), table -> ONNX model (`export`)."""
