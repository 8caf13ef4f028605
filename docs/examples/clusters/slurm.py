"""A cluster on Slurm: run this where jobs may be submitted, and leave it running. Its jobs are as in slurm.sh."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from dask_jobqueue.slurm import SLURMCluster
from distributed import Security


def options(tls: Path) -> dict[str, Any]:
    """What a job asks for, and how it starts a worker.

    Args:
        tls: Where certificates.sh has written; all nodes see it.
    """
    return {
        "queue": "compute",
        "cores": 16,
        "memory": "64 GB",
        "processes": 1,  # a worker uses all cores: its steps share one TensorFlow
        "walltime": "08:00:00",
        "python": "/srv/modelwheel/venv/bin/python",
        "local_directory": "$TMPDIR",
        "log_directory": "logs",
        "worker_extra_args": ["--preload", "modelwheel.engine.cluster.worker"],
        "job_script_prologue": [
            "export DASK_MODELWHEEL__MEMORY=60000000000",  # bytes that steps may use; the rest is the worker's
            "export DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP=300s",  # networks stand still for a minute now and then
        ],
        "death_timeout": 300,
        "protocol": "tls://",
        "security": Security(
            require_encryption=True,
            tls_ca_file=str(tls / "ca.pem"),
            **{
                f"tls_{role}_{part}": str(tls / f"{role}.{suffix}")
                for role in ("scheduler", "worker", "client")
                for part, suffix in (("cert", "pem"), ("key", "key"))
            },
        ),
        "scheduler_options": {"port": 8786, "dashboard_address": "localhost:8787"},
    }


def main() -> None:
    """Has between 1 and 50 jobs, as many as there are steps for."""
    with SLURMCluster(**options(Path("/srv/modelwheel/tls"))) as cluster:
        cluster.adapt(minimum_jobs=1, maximum_jobs=50)
        print(f"modelwheel build --cluster {cluster.scheduler_address} model_specs", flush=True)  # noqa: T201 - a program for people
        signal.pause()


if __name__ == "__main__":
    main()
