"""Connects to a cluster, or starts one on this machine."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import dask
from distributed import Client, LocalCluster, Security

from ...errors import ClusterError
from ...workers.pool import available_memory, usable_cores
from .address import Target
from .start import OUTAGE_SECONDS, PRELOAD

CONNECT_SECONDS = 15
"""How long a scheduler may take to answer."""

_SILENT = logging.CRITICAL + 1


@dataclass(frozen=True)
class Link:
    """A way to a scheduler, for as many clients as are needed after each other."""

    target: Target
    address: str
    security: Security | None

    def connect(self) -> Client:
        """A new client.

        Raises:
            ClusterError: No scheduler answers.
        """
        try:
            return Client(
                self.address,
                timeout=CONNECT_SECONDS,
                security=self.security,
                name="modelwheel",
                set_as_default=False,
            )
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise ClusterError(
                f"cannot reach a Dask scheduler at {self.target.shown} ({reason}); start one with `dask scheduler`, or "
                "correct the address",
                code="MW761",
            ) from error


@contextmanager
def open_cluster(target: Target) -> Iterator[Link]:
    """The way to a cluster; one that is started here ends at exit.

    Raises:
        ClusterError: It cannot be started.
    """
    with ExitStack() as stack:
        stack.enter_context(
            dask.config.set({"distributed.comm.timeouts.tcp": f"{OUTAGE_SECONDS}s"})
        )
        # What Dask says of lost workers and cancelled tasks, the display of the build says in its words.
        logging.getLogger("distributed").setLevel(_SILENT)
        if target.address:
            yield Link(target, target.address, _security(target))
            return
        # With keys of its own: who may connect to a scheduler may run anything as its user.
        security = Security.temporary()
        settings = {
            "modelwheel.memory": available_memory() // target.local_workers,
            "modelwheel.resources": dict(target.resources),
            "logging.distributed": "critical",
            # Dask would end a worker that takes longer to start again.
            "distributed.deploy.lost-worker-timeout": "1h",
        }
        stack.enter_context(dask.config.set(settings))
        cluster = stack.enter_context(
            LocalCluster(
                n_workers=target.local_workers,
                threads_per_worker=math.ceil(usable_cores() / target.local_workers),
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                memory_limit=0,
                security=security,
                protocol="tls://",
                preload=[PRELOAD],
                silence_logs=_SILENT,
            )
        )
        yield Link(target, cluster.scheduler_address, security)


def _security(target: Target) -> Security | None:
    if target.tls is None:
        return None
    return Security(
        tls_ca_file=str(target.tls.ca_file),
        tls_client_cert=str(target.tls.cert),
        tls_client_key=str(target.tls.key),
        require_encryption=True,
    )
