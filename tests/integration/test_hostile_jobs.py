"""Hostile models whose jobs run although nobody judged them: what they reach outside is nothing."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from modelwheel.errors import ModelwheelError
from modelwheel.sandbox.choose import Sandbox, choose_sandbox
from modelwheel.sandbox.policy import Limits, Policy
from modelwheel.workers.jobs import FreezeRequest, JobResult, ReferenceRequest
from modelwheel.workers.pool import WorkerPool
from tests.models.hostile import ATTACKS, SECRET, TOKEN, VARIABLE, Attack, Attacks, Victim

pytestmark = pytest.mark.slow

_ENDLESS = ("loop_at_loading", "endless_loop")
_OTHER_LIMITS = ("start_threads", "sleep", "huge_tile", "growing_loop")
_LIMITS = [each for each in ATTACKS if each.name in (*_ENDLESS, *_OTHER_LIMITS)]
_OUTSIDE = [
    each
    for each in ATTACKS
    if each.runs and each.kind in ("effect", "loading") and each not in _LIMITS
]

_MANY = Limits(wall_seconds=120, memory_bytes=3 * 10**9)
_FEW = Limits(wall_seconds=8, memory_bytes=3 * 10**9)

_STOLEN = [
    form
    for text in (SECRET, TOKEN)
    for form in (text.encode(), np.frombuffer(text.encode(), np.uint8).astype("<f4").tobytes())
]
"""What attacks write into results if they have read it: as text, and each byte as a number."""


@dataclass(frozen=True)
class _Reached:
    """What attacks have reached."""

    written: frozenset[str]
    """Names of new files around the victim, without their extension."""
    stolen: frozenset[str]
    """Names of attacks with a secret in their results."""
    connections: int
    errors: dict[str, str]


def _attack(
    attacks: Sequence[Attack], models: Attacks, sandbox: Sandbox, directory: Path
) -> _Reached:
    """Runs a job for each attack, all in one worker."""
    (directory / "workers").mkdir()
    others = {process.pid for process in psutil.Process().children(recursive=True)}
    jobs: dict[str, tuple[Future[JobResult], Path]] = {}
    around = models.victim.directory
    before = set(around.iterdir())
    with _listening(models.victim) as connections:
        with WorkerPool(directory / "workers", 2, 10**12, sandbox=sandbox) as pool:
            for attack in attacks:
                out = directory / attack.name
                out.mkdir()
                job = _request(attack).job(models.models / attack.name, out)
                jobs[attack.name] = pool.submit(job, step=attack.name), out
            errors = {name: job.exception() for name, (job, _) in jobs.items()}
            servers = [one for one in _started(others) if "modelwheel.compiler" in one]
            assert len(servers) == 1, servers  # no process of a job is left
        assert not list((directory / "workers").glob("worker-*/*/[0-9]*"))
        count = len(connections)
    new = set(around.iterdir()) - before
    for path in new:
        path.unlink() if path.is_file() else path.rename(directory / path.name)
    stolen = {
        name
        for name, (_, out) in jobs.items()
        for path in out.iterdir()
        if any(form in path.read_bytes() for form in _STOLEN)
    }
    assert all(isinstance(error, ModelwheelError) for error in errors.values() if error)
    said = {name: str(error) for name, error in errors.items() if error}
    assert not [text for text in said.values() if "\n" in text or "\x1b" in text]
    return _Reached(
        frozenset(path.name.partition(".")[0] for path in new), frozenset(stolen), count, said
    )


def _request(attack: Attack) -> FreezeRequest | ReferenceRequest:
    if attack.kind == "loading":
        return FreezeRequest(signature="serving_default", batch=2)
    return ReferenceRequest(signature="serving_default", batch_sizes=(1,), rows=(1, 2))


def _started(others: set[int]) -> Iterator[list[str]]:
    """The commands of processes that were started here, but for these, which other tests use."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            # bubblewrap's own command line names the program, too.
            if process.pid not in others and process.name() != "bwrap":
                yield process.cmdline()


@contextmanager
def _listening(victim: Victim) -> Iterator[list[object]]:
    """Collects the connections to the victim's port."""
    connections: list[object] = []
    with socket.create_server(("127.0.0.1", victim.port)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    connections.append(connection)
                    connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield connections
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture(autouse=True)
def _secret_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, TOKEN)


def test_without_a_sandbox_the_attacks_work(attacks: Attacks, tmp_path: Path) -> None:
    """Or the tests below would find nothing because nothing was tried."""
    reached = _attack(_OUTSIDE, attacks, replace(Sandbox("none", ""), limits=_MANY), tmp_path)
    assert reached.written >= {"write_file", "print_to_file", "save_checkpoint", "write_at_loading"}
    assert reached.stolen == {"file_to_weights"}  # but not the variable: it is not inherited
    assert reached.connections


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_attacks_reach_nothing_outside_their_sandbox(
    kind: str, attacks: Attacks, tmp_path: Path
) -> None:
    best = choose_sandbox(Policy.REQUIRED)
    if best.kind != kind:
        best = Sandbox("landlock", "") if kind == "landlock" else pytest.skip(f"no {kind} here")
    reached = _attack(_OUTSIDE, attacks, replace(best, limits=_MANY), tmp_path)
    assert (reached.written, reached.stolen, reached.connections) == (frozenset(), frozenset(), 0)


def test_attacks_on_limits_end_with_a_sentence(attacks: Attacks, tmp_path: Path) -> None:
    sandbox = replace(choose_sandbox(Policy.REQUIRED), limits=_FEW)
    reached = _attack(_LIMITS, attacks, sandbox, tmp_path)
    for name in (*_ENDLESS, "start_threads", "sleep"):
        assert f"{name} took longer than 8 s and was stopped" in reached.errors[name]
    for name in _ENDLESS:
        assert "most likely because of the layers 'evil'" in reached.errors[name]
    assert "needed more than the 3 GB of memory" in reached.errors["huge_tile"]
    # A quick machine reaches the limit of memory first.
    assert re.search("needed more than the 3 GB|took longer", reached.errors["growing_loop"])
    assert not reached.written
