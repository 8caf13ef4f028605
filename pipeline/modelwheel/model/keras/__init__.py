"""Files of Keras, read and judged without Keras."""
