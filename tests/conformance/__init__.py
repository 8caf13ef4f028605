"""ONNX's own conformance suite, against what modelwheel makes of each of its models."""
