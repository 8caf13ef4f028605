"""Opens a store by its address: the one place where an address becomes a store."""

from __future__ import annotations

from pathlib import Path

from ..util.places import is_url
from .backends.objects import ObjectBackend
from .layers import Policy
from .objects.eviction import DEFAULT_BYTES
from .store import Store


def open_store(
    address: str | Path | None = None,
    policy: Policy = Policy(),  # noqa: B008
    cache: Path | None = None,
    cache_bytes: int = DEFAULT_BYTES,
) -> Store:
    """The store at an address.

    Args:
        address: A directory, or the URL of a place in an object store; by default the directory `default_root()`.
        policy: The upstreams, and whose records count.
        cache: The directory for what belongs to this machine: locks, and copies of what is in object stores; by default
            `default_root()`. A store in a directory has them there.
        cache_bytes: The most bytes of these copies.

    Raises:
        UsageError: The address is not one of a store.
        EnvironmentProblemError: The packages for this object store are not installed.
    """
    if address is not None and is_url(address):
        return Store(cache, policy, ObjectBackend(str(address)), cache_bytes)
    return Store(cache if address is None else Path(address), policy, cache_bytes=cache_bytes)
