"""What a model of TensorFlow holds, found by reading it."""
