"""Recordings to boxes: the user's detector, from an ONNX file or a Python callable."""
