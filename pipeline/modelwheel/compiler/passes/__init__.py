"""Rewrites of a program: steps that do more at once, and steps that are not needed."""
