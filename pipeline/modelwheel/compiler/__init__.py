"""Runs in workers only, and nobody imports it: from the files of a model to machine code."""
