"""Loops: their trip counts, their state, and the parts of arrays that each iteration reads and writes."""
