"""Renders `wheel_template/` and packs wheels and source distributions."""
