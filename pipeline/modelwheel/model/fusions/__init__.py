"""Fusions: better implementations of parts of a model, found by marks or patterns."""
