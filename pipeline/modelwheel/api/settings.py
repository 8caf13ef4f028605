"""The store and the sandbox as `modelwheel.toml` and the environment describe them."""

from __future__ import annotations

from pathlib import Path
from weakref import WeakSet

from ..config import load_config
from ..sandbox.choose import Sandbox, choose_sandbox
from ..sandbox.policy import Limits, Policy
from ..store.store import Store
from ..util.places import is_url

_chosen: str | None = None
"""The store that a command line names."""

_opened: WeakSet[Store] = WeakSet()


def choose_store(address: str | None) -> None:
    """Lets `open_store` open another store than `modelwheel.toml` names; None for that one."""
    global _chosen  # noqa: PLW0603 - as the command line, there is one for a process
    _chosen = address


def open_store() -> Store:
    """The user's store, with the upstreams and trusted keys of `modelwheel.toml`.

    Raises:
        UsageError: The file has mistakes, the address is not one of a store, or the key to sign with cannot be used.
        EnvironmentProblemError: The packages for its object store are not installed.
    """
    from ..store import opening
    from ..store.layers import Policy as StorePolicy
    from ..store.signatures import find_signer

    rules = load_config().store
    signer = find_signer(rules.trusted_keys)
    address = _chosen or rules.url
    if address is not None and not is_url(address):
        address = str(Path(address).expanduser().absolute())
    store = opening.open_store(
        address,
        StorePolicy(rules.trusted_keys, rules.upstream, signer),
        cache_bytes=round(rules.cache_gb * 1e9),
    )
    _opened.add(store)
    return store


def close_stores() -> None:
    """Closes every store that `open_store` has opened, at the end of a command.

    Not later: at the end of the process, the libraries of object stores cannot connect to a server any more, and a lease
    would stay until it expires.
    """
    for store in tuple(_opened):
        store.close()
    _opened.clear()


def open_sandbox(mode: Policy | None) -> Sandbox:
    """The sandbox that a caller asks for, else `modelwheel.toml`, with the limits there.

    Raises:
        UsageError: The file has mistakes.
        SandboxError: One is required and none works here.
    """
    return choose_sandbox(*find_sandbox_rules(mode))


def find_sandbox_rules(mode: Policy | None) -> tuple[Policy, Limits]:
    """Whether models must run in a sandbox, and what they may use there; of the caller, else of `modelwheel.toml`.

    Raises:
        UsageError: The file has mistakes.
    """
    rules = load_config().sandbox
    memory = None if rules.memory_gb is None else round(rules.memory_gb * 1e9)
    limits = Limits(
        wall_seconds=rules.seconds, reading_seconds=rules.reading_seconds, memory_bytes=memory
    )
    return mode or Policy(rules.mode), limits
