"""Files of Keras."""
