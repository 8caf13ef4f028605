"""Finds where Git LFS keeps the objects of a repository, as git-lfs does.

https://github.com/git-lfs/git-lfs/blob/main/docs/api/server-discovery.md and authentication.md there.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ...errors import SourceError
from ...spec.sources import is_local
from ...util.processes.process import ProcessError, run
from ...util.records import parse_json
from ...util.urls import redact, url_problem
from .lfs import Origin, Server

_SECONDS = 60.0
_SETTINGS = ("lfs.url", "remote.origin.lfsurl")
"""In the order in which they count."""


class Git(Protocol):
    """Runs git on one repository."""

    def __call__(self, *args: str, content: bytes | None = None) -> str | None:
        """The output of git; None if it fails."""


def origin_of(
    git: Git, url: str, lfsconfig: tuple[str, str], stores: tuple[Path, ...] = ()
) -> Origin:
    """Where the objects of a repository's remote are.

    Args:
        git: Runs git on a repository whose remote `origin` it is.
        url: The remote, as the user or spec wrote it.
        lfsconfig: Options of `git config` that name the repository's file .lfsconfig.
        stores: Directories of git that have objects, in addition to those of the remote.
    """
    shown = redact(url)

    def remote() -> str:
        # As git rewrites it (`url.*.insteadOf`).
        return git("ls-remote", "--get-url", "origin") or url

    def find() -> Server:
        for setting in _SETTINGS:
            configured = git("config", *lfsconfig, "--get", setting)
            if configured:
                return Server(_configured(configured, remote()))
        return _server_of(git, _beyond(git, remote()), shown)

    def find_stores() -> tuple[Path, ...]:
        return (*stores, *_stores(remote()))

    return Origin(shown, find_stores, find, lambda wanted: _credentials(git, wanted))


def without_credentials(url: str) -> str:
    """The address of a remote without the user and password that an https address may have."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or "@" not in parts.netloc:
        return url
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def local_path(url: str) -> Path | None:
    """The directory of a repository on this machine."""
    if urlsplit(url).scheme == "file":
        return Path(url2pathname(urlsplit(url).path))
    return Path(url) if is_local(url) else None


def _stores(url: str) -> tuple[Path, ...]:
    path = local_path(url)
    return (path, path / ".git") if path is not None else ()


def _beyond(git: Git, remote: str) -> str:
    """The remote of a clone on this machine, which has its objects if the clone does not."""
    path = local_path(remote)
    if path is None:
        return remote
    for place in (path / ".git", path):
        origin = git(f"--git-dir={place}", "config", "--get", "remote.origin.url")
        if origin and local_path(origin) is None:
            return origin
    return remote


def _configured(url: str, remote: str) -> str:
    """The address in a .lfsconfig, which the author of the repository chose."""
    problem = url_problem(url, ("https",))
    own, other = urlsplit(remote), urlsplit(url)
    same_host = (own.scheme, own.netloc) == (other.scheme, other.netloc) and own.scheme == "http"
    if (problem and not same_host) or "@" in other.netloc:
        raise SourceError(
            f"lfs.url in the .lfsconfig of {redact(remote)} is {redact(url)!r}, which is not used; it must be an https "
            "address without credentials"
        )
    return url


def _server_of(git: Git, remote: str, shown: str) -> Server:
    if local_path(remote) is not None:
        raise SourceError(
            f"{shown} has files in Git LFS that are not on this machine; run `git lfs fetch --all` there"
        )
    if urlsplit(remote).scheme in ("http", "https"):
        plain = remote.rstrip("/")
        return Server(f"{plain}/info/lfs" if plain.endswith(".git") else f"{plain}.git/info/lfs")
    return _ask_over_ssh(git, remote, shown)


def _ask_over_ssh(git: Git, remote: str, shown: str) -> Server:
    """The answer of `git-lfs-authenticate` on the repository's host."""
    parts = urlsplit(remote)
    if parts.scheme == "ssh":
        host = f"{parts.username}@{parts.hostname}" if parts.username else parts.hostname or ""
        path, port = parts.path.lstrip("/"), ["-p", str(parts.port)] if parts.port else []
    else:
        host, _, path = remote.partition(":")
        port = []
    configured = os.environ.get("GIT_SSH_COMMAND") or git("config", "--get", "core.sshCommand")
    ssh = shlex.split(configured) if configured else [os.environ.get("GIT_SSH", "ssh")]
    command = f"git-lfs-authenticate {shlex.quote(path)} download"
    try:
        answer = parse_json(run([*ssh, *port, host, command], timeout=_SECONDS).stdout)
        headers = {str(key): str(value) for key, value in answer.get("header", {}).items()}
        url = str(answer["href"])
    except (ProcessError, ValueError, LookupError, TypeError, AttributeError):
        # A host without that program has its server where https has it.
        bare = host.rpartition("@")[2]
        return Server(f"https://{bare}/{path.removesuffix('.git')}.git/info/lfs")
    if urlsplit(url).scheme != "https":
        raise SourceError(f"{shown} has its Git LFS server at an address that is not https")
    return Server(url, headers)


def _credentials(git: Git, url: str) -> tuple[str, str] | None:
    """User and password, as git would use them for a URL."""
    if re.search(r"[\n\0]", url):
        return None
    answer = git("credential", "fill", content=f"url={url}\n\n".encode())
    fields: Mapping[str, str] = dict(
        line.split("=", 1) for line in (answer or "").splitlines() if "=" in line
    )
    if "username" not in fields or "password" not in fields:
        return None
    return fields["username"], fields["password"]
