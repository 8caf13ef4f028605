"""The plan of a build: its steps, their reasons, and their cost."""
