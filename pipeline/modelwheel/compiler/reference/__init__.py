"""What a model computes for given inputs, and how exact that is."""
