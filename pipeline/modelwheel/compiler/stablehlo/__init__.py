"""Modules of StableHLO: read, judged, rewritten."""
