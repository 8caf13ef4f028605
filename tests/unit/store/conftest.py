"""Stores of several machines in one object store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelwheel.store.backends.objects import ObjectBackend
from modelwheel.store.layers import Policy
from modelwheel.store.leases import PREFIX as LEASES
from modelwheel.store.opening import open_store
from modelwheel.store.store import Store
from tests.support.object_stores import serve_objects, share_clients
from tests.support.stores import Machine


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serve_objects("s3") as url, pytest.MonkeyPatch.context() as patch:
        share_clients(patch)
        yield url


@pytest.fixture
def url(server: str) -> str:
    return f"{server}/{uuid.uuid4().hex}"


@pytest.fixture
def machine(url: str, tmp_path: Path) -> Machine:
    """Opens the store on a machine of some name, as a new process there does."""

    def open_it(name: str = "a", policy: Policy = Policy(), address: str = url) -> Store:  # noqa: B008
        return open_store(address, policy, tmp_path / name)

    return open_it


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What object stores are asked, such as `read actions/...`."""
    seen: list[str] = []
    real = ObjectBackend._call

    def call(self: ObjectBackend, doing: str, *arguments: Any, **options: Any) -> Any:
        if LEASES not in doing:  # one for each process
            seen.append(f"{doing} {self.address}")
        return real(self, doing, *arguments, **options)

    real_create = ObjectBackend.create

    def create(self: ObjectBackend, name: str, content: bytes | Path) -> bool:
        seen.append(f"create {name} {self.address}")
        return real_create(self, name, content)

    monkeypatch.setattr(ObjectBackend, "_call", call)
    monkeypatch.setattr(ObjectBackend, "create", create)
    return seen
