"""Opens a store by its address: the one place where an address becomes a store."""

from __future__ import annotations

from pathlib import Path

from .disk import default_root
from .layers import Policy
from .store import Store


def open_store(
    address: str | Path | None = None,
    policy: Policy = Policy(),  # noqa: B008
    cache: Path | None = None,
) -> Store:
    """The store at an address.

    Args:
        address: A directory; by default `default_root()`.
        policy: The upstreams, and whose records count.
        cache: The directory for what belongs to this machine, such as locks and copies of what is in an object store;
            by default `default_root()`. A store in a directory keeps it there.
    """
    return Store(Path(address) if address else cache or default_root(), policy)
