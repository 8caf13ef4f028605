"""The store and the sandbox as `modelwheel.toml` and the environment describe them."""

from __future__ import annotations

from pathlib import Path

from ..config import load_config
from ..sandbox.choose import Sandbox, choose_sandbox
from ..sandbox.policy import Limits, Policy
from ..store.store import Store


def open_store() -> Store:
    """The user's store, with the upstreams and trusted keys of `modelwheel.toml`.

    Raises:
        UsageError: The file has mistakes, or the key to sign with cannot be used.
    """
    from ..store.layers import Policy as StorePolicy
    from ..store.signatures import find_signer

    rules = load_config().store
    upstream = tuple(map(Path, rules.upstream))
    signer = find_signer(rules.trusted_keys)
    return Store(policy=StorePolicy(rules.trusted_keys, upstream, signer))


def open_sandbox(mode: Policy | None) -> Sandbox:
    """The sandbox that a caller asks for, else `modelwheel.toml`, with the limits there.

    Raises:
        UsageError: The file has mistakes.
        SandboxError: One is required and none works here.
    """
    rules = load_config().sandbox
    memory = None if rules.memory_gb is None else round(rules.memory_gb * 1e9)
    limits = Limits(
        wall_seconds=rules.seconds, reading_seconds=rules.reading_seconds, memory_bytes=memory
    )
    return choose_sandbox(mode or Policy(rules.mode), limits)
