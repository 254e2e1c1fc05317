"""A detector of polyps: its network, training on annotated frames, and ONNX file."""
