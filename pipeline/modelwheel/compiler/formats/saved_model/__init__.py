"""TensorFlow's SavedModels."""
