"""What differs between two ONNX graphs, whatever made them."""
