"""Graphs of TensorFlow: nodes, functions, what operations do."""
