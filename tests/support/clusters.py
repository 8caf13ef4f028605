"""Real Dask clusters on this machine: a scheduler and workers in processes of their own, which tests stop and kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from distributed import Security

from modelwheel.engine.cluster.address import OnCluster, Tls, parse_target
from modelwheel.engine.cluster.executor import ClusterExecutor, on_cluster
from modelwheel.engine.reporting import Reporter, SilentReporter
from modelwheel.engine.scheduler import Outcome, Task, run_on
from modelwheel.engine.steps.base import Step
from modelwheel.sandbox.policy import Limits, Policy
from modelwheel.store.store import Store
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
MODEL_KEY = "ab" * 32
SCHEDULER = "distributed.cli.dask_scheduler"
WORKER = "distributed.cli.dask_worker"


@dataclass
class Cluster:
    """A scheduler and workers. What they write is in files of `directory`."""

    directory: Path
    port: int = 0
    tls: Tls | None = None
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{'tls' if self.tls else 'tcp'}://127.0.0.1:{self.port}"

    def start_scheduler(self) -> None:
        """Also again after its end, at the same address."""
        log = self.directory / "scheduler.log"
        log.unlink(missing_ok=True)
        arguments = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        if self.tls is not None:
            arguments += ["--protocol", "tls", "--tls-ca-file", str(self.tls.ca_file)]
            arguments += ["--tls-cert", str(self.tls.cert), "--tls-key", str(self.tls.key)]
        self.scheduler = self._start("scheduler", "-m", SCHEDULER, *arguments)
        found = re.compile(r"Scheduler at:\s+t[cl][ps]://127\.0\.0\.1:(\d+)")
        wait_until(lambda: found.search(log.read_text()))
        if match := found.search(log.read_text()):
            self.port = int(match[1])

    def start_workers(self, processes: int, *options: str) -> None:
        """`modelwheel worker`, which starts them again."""
        arguments = ("--processes", str(processes), "--threads", "2", "--memory", "8", *options)
        name = f"worker-{len(self.workers)}"
        self.workers.append(
            self._start(name, "-m", "modelwheel", "worker", *arguments, self.address)
        )

    def start_other_worker(self, preload: str) -> None:
        """A worker of Dask alone, with the preload of a test."""
        arguments = (self.address, "--nthreads", "1", "--no-dashboard", "--preload", preload)
        name = f"worker-{len(self.workers)}"
        self.workers.append(self._start(name, "-m", WORKER, *arguments, "--name", "other"))

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with (self.directory / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )

    def close(self) -> None:
        """Ends every process, and those that they have started."""
        own = [process for process in (*self.workers, self.scheduler) if process is not None]
        found = [psutil.Process(process.pid) for process in own if process.poll() is None]
        every = [*found, *(child for one in found for child in one.children(recursive=True))]
        for process in every:
            if process.is_running():
                process.send_signal(signal.SIGKILL)
        for one in own:
            one.wait()
        psutil.wait_procs(every, timeout=10)


def make_keys(directory: Path) -> Tls:
    """Files of TLS for all machines of a cluster, and a configuration that names them."""
    made = Security.temporary()
    (directory / "cert.pem").write_text(made.tls_ca_file)
    (directory / "key.pem").write_text(made.tls_client_key)
    (directory / ".git").touch()
    (directory / "modelwheel.toml").write_text(
        '[cluster]\ntls_ca_file = "cert.pem"\ntls_cert = "cert.pem"\ntls_key = "key.pem"\n'
    )
    return Tls(directory / "cert.pem", directory / "cert.pem", directory / "key.pem")


@contextmanager
def cluster(processes: int = 2, *, tls: bool = False) -> Iterator[Cluster]:
    """A cluster of so many worker processes."""
    with ExitStack() as stack:
        found = Cluster(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        found.tls = make_keys(found.directory) if tls else None
        stack.callback(found.close)
        found.start_scheduler()
        if processes:
            found.start_workers(processes)
            wait_until(lambda: found.log("worker-0").count("Registered to") == processes)
        yield found


@contextmanager
def executor(
    address: str, store: Store, reporter: Reporter | None = None, tls: Tls | None = None
) -> Iterator[ClusterExecutor]:
    """Runs toy steps on a cluster."""
    where = OnCluster(parse_target(address, tls), Policy.PREFERRED, Limits())
    with on_cluster(where, store, reporter or SilentReporter()) as found:
        yield found


def run_toys(
    address: str,
    store: Store,
    *tasks: Sequence[Step],
    reporter: Reporter | None = None,
    tls: Tls | None = None,
) -> list[Outcome]:
    """Runs toy steps to their end."""
    model = store.root.parent / "model"
    model.mkdir(exist_ok=True)
    (model / "model").write_text("a model")
    told = reporter or SilentReporter()
    with executor(address, store, told, tls) as found:
        return run_on(found, [Task(steps, model, model_key=MODEL_KEY) for steps in tasks], told)


def main(address: str, root: str, length: str, does: str) -> None:
    """A client to be killed: `python -m tests.support.clusters ADDRESS STORE LENGTH DOES`."""
    from tests.support.cluster_toys import chain

    store = Store(Path(root))
    diary = store.root.parent / "diary"
    tasks = [chain(diary, f"model{number}", int(length), does) for number in range(2)]
    outcomes = run_toys(address, store, *tasks)
    store.close()
    sys.exit(any(outcome.errors for outcome in outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])
