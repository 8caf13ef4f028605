"""TensorFlow's graphs in a file."""
