"""Evaluates a model for given inputs, and finds how exact that is."""
