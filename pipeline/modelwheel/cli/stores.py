"""The store as `modelwheel.toml` and the environment describe it."""

from ..api.settings import open_store

__all__ = ["open_store"]
