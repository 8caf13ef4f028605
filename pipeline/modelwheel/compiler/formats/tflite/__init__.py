"""Files of TensorFlow Lite (LiteRT)."""
