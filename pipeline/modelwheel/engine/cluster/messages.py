"""Why a step has no result, although nothing is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import ClusterError
from .declaration import words_of


def differs(step: str, worker: str) -> ClusterError:
    return ClusterError(
        f"the worker {worker} computes another key for {step} than this machine, although their versions are the same; "
        "install modelwheel and what it needs there again"
    )


def not_there(step: str, worker: str, store: str) -> ClusterError:
    return ClusterError(
        f"the worker {worker} has put the result of {step} into the store {store}, but it is not there; all machines "
        "need the same store, and the same key to sign with where records are signed",
        code="MW762",
    )


def lost(step: str, workers: Sequence[str]) -> ClusterError:
    return ClusterError(
        f"{step} was lost {len(workers)} times because the worker that ran it died: {', '.join(workers)}; it most likely "
        "needs more memory than a worker may use",
        code="MW764",
    )


def no_worker(step: str, needs: Mapping[str, float], shown: str) -> ClusterError:
    return ClusterError(
        f"{step} waits for a worker with {words_of(needs)}, and the cluster at {shown} has none; start one there: "
        f"modelwheel worker {shown}",
        code="MW763",
    )
