"""ONNX's own conformance suite (`onnx.backend.test`), against what modelwheel makes of each of its models.

Each case is converted to StableHLO, compiled by XLA for this machine, run on the inputs of the case, and compared
with its outputs. `make onnx-conformance` writes docs/onnx.md.
"""
