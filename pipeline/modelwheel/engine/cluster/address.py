"""Addresses of clusters, as command lines and modelwheel.toml give them. Imports nothing of Dask."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import ClusterError
from ...sandbox.policy import Limits, Policy
from ...util.text import one_line

_REMOTE = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+):([0-9]{1,5})/?")
_LOCAL = re.compile(r"local(?::([1-9][0-9]{0,3}))?")

_LOCAL_WORKERS = 2


@dataclass(frozen=True)
class Tls:
    """Files with which machines of a cluster know each other."""

    ca_file: Path
    cert: Path
    key: Path


@dataclass(frozen=True)
class Target:
    """A cluster to connect to, or to start."""

    address: str
    """Of a scheduler; empty for one that is started on this machine."""
    local_workers: int = 0
    """How many worker processes are started on this machine."""
    tls: Tls | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    """What workers have in addition, and each step takes 1 of."""

    @property
    def shown(self) -> str:
        """The address for people."""
        return self.address or f"local:{self.local_workers}"


@dataclass(frozen=True)
class OnCluster:
    """A build whose steps run on a cluster."""

    target: Target
    sandbox: Policy
    """Whether models must run in a sandbox there."""
    limits: Limits
    """What each program may use."""


def parse_target(
    text: str, tls: Tls | None = None, resources: Mapping[str, float] | None = None
) -> Target:
    """The cluster at an address.

    Args:
        text: `tcp://HOST:PORT`, `tls://HOST:PORT`, `local` or `local:N`.
        tls: Its files, which `tls://` needs.
        resources: See `Target.resources`.

    Raises:
        ClusterError: It is not an address, or files for it are missing.
    """
    if local := _LOCAL.fullmatch(text):
        return Target("", int(local[1] or _LOCAL_WORKERS), None, resources or {})
    match = _REMOTE.fullmatch(text)
    if not match or int(match[3]) > 65535:
        raise ClusterError(
            f"--cluster: {one_line(text)!r} is not the address of a cluster; write tcp://HOST:PORT or tls://HOST:PORT of "
            "a Dask scheduler, or local:N for N worker processes on this machine"
        )
    if match[1] == "tcp":
        return Target(text.rstrip("/"), 0, None, resources or {})
    if tls is None:
        raise ClusterError(
            f"--cluster: {text} needs `tls_ca_file`, `tls_cert` and `tls_key` in section [cluster] of modelwheel.toml"
        )
    missing = [path for path in (tls.ca_file, tls.cert, tls.key) if not path.is_file()]
    if missing:
        raise ClusterError(f"[cluster] in modelwheel.toml: there is no file {one_line(missing[0])}")
    return Target(text.rstrip("/"), 0, tls, resources or {})
