"""The demonstration behind `make demo`: one model through the whole pipeline, on real data."""
