"""The truth of a model: its graph in float64, and how far float32 is from it."""
