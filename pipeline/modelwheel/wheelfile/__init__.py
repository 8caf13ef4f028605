"""Reads wheels and the reports beside them."""
