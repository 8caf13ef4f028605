"""Kills builds and uploads at random moments and examines what is left: `python -m tests.kills 200`."""
