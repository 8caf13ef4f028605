"""The store as `modelwheel.toml` and the environment describe it."""

from __future__ import annotations

from pathlib import Path

from ..store.store import Store


def open_store() -> Store:
    """The user's store, with the upstreams and trusted keys of `modelwheel.toml`.

    Raises:
        UsageError: The file has mistakes, or the key to sign with cannot be used.
    """
    from ..config import load_config
    from ..store.layers import Policy
    from ..store.signatures import find_signer

    rules = load_config().store
    upstream = tuple(map(Path, rules.upstream))
    return Store(policy=Policy(rules.trusted_keys, upstream, find_signer(rules.trusted_keys)))
