"""Traces the files of a wheel back to the commit of its model."""
