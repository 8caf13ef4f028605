"""The workers of a cluster that a build uses, and those that it refuses."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from distributed import Client
from pydantic import ValidationError

from ...errors import ClusterError
from ...sandbox.policy import Policy
from ...store.keys import action_key
from ...store.store import Store
from ...util.text import one_line
from .declaration import NAME, Declaration, name_of_worker, why_refused
from .tasks import Settings
from .worker import probe

_JOIN_SECONDS = 60.0
"""How long a build waits for its first worker."""

_TOLD_SECONDS = 3.0
"""After so long it says that it waits."""

_POLL_SECONDS = 0.2

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Member:
    """A worker that runs steps."""

    address: str
    name: str
    slots: int
    declared: Declaration

    @property
    def shown(self) -> str:
        """Its name for people."""
        return name_of_worker(self.name, self.declared.host)

    @cached_property
    def _resources(self) -> Mapping[str, float]:
        return self.declared.resources()

    def has(self, needs: Mapping[str, float]) -> bool:
        """Whether it can run a step that needs this."""
        own = self._resources
        return all(own.get(name, 0.0) >= amount for name, amount in needs.items())


def list_members(client: Client) -> dict[str, Member]:
    """Every worker that has declared itself, by its address; others belong to other users of the cluster."""
    info = client.scheduler_info(n_workers=-1)
    members = (_member(address, worker) for address, worker in info["workers"].items())
    return {member.address: member for member in members if member is not None}


def _member(address: str, worker: Mapping[str, Any]) -> Member | None:
    if NAME not in worker:
        return None
    try:
        declared = Declaration.model_validate(worker[NAME])
    except ValidationError:  # another version of modelwheel declares something else
        fields = worker[NAME] if isinstance(worker[NAME], dict) else {}
        version = str(fields.get("modelwheel", "of an unknown version"))
        declared = Declaration(
            host="", modelwheel=version, tensorflow="", template="", tools={}, platform="", levels=(), sandbox=""
        )  # fmt: skip
    return Member(address, one_line(str(worker["name"])), int(worker["nthreads"]), declared)


def require_members(
    client: Client, wanted: int, shown: str, patience: float = _JOIN_SECONDS
) -> dict[str, Member]:
    """The workers, once there are so many.

    Raises:
        ClusterError: They do not come.
    """
    deadline, told = time.monotonic() + patience, False
    while len(members := list_members(client)) < wanted:
        if time.monotonic() > deadline:
            raise ClusterError(
                f"no worker of modelwheel is in the cluster at {shown}; start one: modelwheel worker {shown}",
                code="MW763",
            )
        if not told and time.monotonic() > deadline - patience + _TOLD_SECONDS:
            told = True
            _log.warning(
                "no worker of modelwheel is in the cluster at %s yet; waiting for %d s. Start one: modelwheel worker %s",
                shown,
                patience,
                shown,
            )
        time.sleep(_POLL_SECONDS)
    return members


def refuse(
    client: Client,
    members: Collection[Member],
    here: Declaration,
    settings: Settings,
    store: Store,
) -> None:
    """Compares every worker with this machine, before anything runs.

    Raises:
        ClusterError: Workers cannot be used; a line for each.
    """
    reasons = judge(client, members, here, settings, store)
    sentences = [
        f"the worker {member.shown} {reasons[member.address]}"
        for member in members
        if member.address in reasons
    ]
    if sentences:
        raise ClusterError(
            "\n".join(sorted(sentences)), code="MW762", line_codes=["MW762"] * len(sentences)
        )


def judge(
    client: Client,
    members: Collection[Member],
    here: Declaration,
    settings: Settings,
    store: Store,
) -> dict[str, str]:
    """Why some workers cannot be used, by their addresses; as the end of a sentence."""
    sandboxed = settings.sandbox is Policy.REQUIRED
    reasons = {
        member.address: reason
        for member in members
        if (reason := why_refused(here, member.declared, sandboxed=sandboxed)) is not None
    }
    alike = [member.address for member in members if member.address not in reasons]
    if alike:
        answers = client.run(probe, settings, _mark(store), workers=alike, on_error="return")
        for address, answer in answers.items():
            # A worker that ended meanwhile is not refused: the scheduler says that it is gone.
            if answer is not None and not isinstance(answer, OSError):
                reasons[address] = str(answer)
    return reasons


def _mark(store: Store) -> str:
    """Puts a record into the store that only those can find who see the same one."""
    key = action_key("cluster-store", host=platform.node(), store=store.address)
    if store.peek(key) is None:
        with store.scratch() as scratch:
            (scratch / "store").write_text(store.address)
            store.publish(key, scratch, {"step": "cluster"})
    return key
