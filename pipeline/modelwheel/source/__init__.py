"""Fetches a model at its pin and verifies it."""
