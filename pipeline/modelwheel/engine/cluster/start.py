"""Starts the workers of `modelwheel worker`: `dask worker`, which loads `worker`, again and again until it is told to end."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...errors import ClusterError
from ...util.processes.process import stream
from ...workers.pool import usable_cores
from .address import Target

PRELOAD = "modelwheel.engine.cluster.worker"
"""What `dask worker --preload` takes."""

OUTAGE_SECONDS = 300
"""How long a connection that says nothing is kept: networks stand still for a minute now and then."""

_AGAIN_SECONDS = 1.0
_AT_ONCE_SECONDS = 5.0
"""A worker that has ended sooner has not begun."""

_MOST_FAILURES = 3


@dataclass(frozen=True)
class Machine:
    """The share of a machine that is given to a cluster."""

    processes: int
    """Each imports TensorFlow once."""
    threads: int
    """How many steps each runs at once."""
    memory_bytes: int
    """For the steps of all of them together."""
    name: str = ""


def default_machine(processes: int | None, threads: int | None) -> tuple[int, int]:
    """How many processes, and threads of each: all cores."""
    count = processes or 1
    return count, threads or max(1, usable_cores() // count)


def worker_command(target: Target, machine: Machine) -> list[str]:
    """The command line of Dask."""
    tls = (
        []
        if target.tls is None
        else [
            *("--tls-ca-file", str(target.tls.ca_file)),
            *("--tls-cert", str(target.tls.cert)),
            *("--tls-key", str(target.tls.key)),
        ]
    )
    return [
        *(sys.executable, "-m", "distributed.cli.dask_worker", target.address, *tls),
        *("--nworkers", str(machine.processes), "--nthreads", str(machine.threads)),
        *("--name", machine.name or f"{platform.node()}-{os.getpid()}"),
        # Steps run in processes of their own, which have their own limits.
        *("--memory-limit", "0", "--no-dashboard", "--preload", PRELOAD),
    ]


def worker_environment(
    target: Target, machine: Machine, inherited: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The environment variables of Dask's worker: `worker` reads what begins with DASK_MODELWHEEL__."""
    variables = {
        "DASK_MODELWHEEL__MEMORY": str(machine.memory_bytes // machine.processes),
        "DASK_MODELWHEEL__RESOURCES": repr(dict(target.resources)),
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": f"{OUTAGE_SECONDS}s",
    }
    return {**inherited, **variables}


def run_workers(target: Target, machine: Machine, tell: Callable[[str], None]) -> None:
    """Runs workers until this process is interrupted.

    A worker of Dask ends when its scheduler does. Then it is started again, and waits until there is one.

    Args:
        target: The cluster.
        machine: What this machine gives.
        tell: Receives each line that they write.

    Raises:
        ClusterError: They end as soon as they are started.
    """
    command, environment = worker_command(target, machine), worker_environment(target, machine)
    failures = 0
    while failures < _MOST_FAILURES:
        began = time.monotonic()
        ended = stream(command, tell, env=environment)
        soon = time.monotonic() - began < _AT_ONCE_SECONDS
        failures = failures + 1 if ended.returncode and soon else 0
        time.sleep(_AGAIN_SECONDS)
    raise ClusterError(
        f"the worker does not start: `dask worker` ended with exit code {ended.returncode} each time; what it says is above"
    )
