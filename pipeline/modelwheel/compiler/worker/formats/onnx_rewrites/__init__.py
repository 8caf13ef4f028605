"""Rewrites of ONNX graphs: a model at fixed shapes becomes nodes in a line that torch-mlir converts."""
