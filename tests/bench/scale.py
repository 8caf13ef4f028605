"""What hundreds of specs cost when nothing is left to do: `python -m tests.bench.scale [--specs 500] [--s3]`.

Fills a store with results of synthetic models, 18 steps each, and times `plan` and `build` on it: on a clock, of the
processor, and the most memory. `--s3` does the same with the store in an S3 server of this machine, and counts requests. Needs a
compiler, because keys contain its version, and no TensorFlow.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

from rich.console import Console
from rich.table import Table

from modelwheel.store.store import Store
from tests.support.filled_stores import fill, load_requests, write_specs

_LIMITS = {"plan": 3, "build": 10, "plan on S3": 30, "build on S3": 30}
"""Seconds that an idle machine may take for 500 specs."""


def main() -> None:
    """Fills a store, and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale", description=__doc__)
    parser.add_argument("--specs", type=int, default=500)
    parser.add_argument("--s3", action="store_true", help="also with a store in S3")
    given = parser.parse_args()
    table = Table("command", "seconds", "of the processor", "MB", "requests", "asked for 500 specs")
    with tempfile.TemporaryDirectory(prefix="modelwheel-scale-") as directory:
        work = Path(directory)
        steps = _fill(work, given.specs)
        _measure(work, table, "", {"MODELWHEEL_CACHE_DIR": str(work / "store")}, ())
        if given.s3:
            with _bucket(work / "store") as (url, variables, requests):
                local = {**variables, "MODELWHEEL_CACHE_DIR": str(work / "local")}
                _measure(work, table, " on S3", local, ("--store", url), requests)
    console = Console(width=110)
    console.print(f"{given.specs} specs, {steps} steps, all in the store")
    console.print(table)


def _fill(work: Path, count: int) -> int:
    """Writes specs and results; how many results there are. Nothing waits for the disk: no power cut matters here."""
    with ExitStack() as stack:
        for place in ("modelwheel.util.files", "modelwheel.store.blobs"):
            for name in ("sync", "sync_directory"):
                stack.enter_context(mock.patch(f"{place}.{name}"))
        requests = load_requests(write_specs(work / "specs", count))
        return fill(Store(work / "store"), requests, work / "made")


def _measure(
    work: Path,
    table: Table,
    where: str,
    variables: Mapping[str, str],
    options: Sequence[str],
    requests: Counter[str] | None = None,
) -> None:
    out = work / f"dist{where}"
    commands = [
        (f"plan{where}", ("plan", *options)),
        (f"plan{where}, again", ("plan", *options)),
        (f"build{where}, into an empty directory", ("build", *options, "--out", str(out))),
        (f"build{where}, again", ("build", *options, "--out", str(out))),
    ]
    for name, command in commands:
        before = (requests or Counter()).total()
        wall, cpu, memory = _run((*command, str(work / "specs")), variables)
        asked = f"{requests.total() - before:,}" if requests is not None else ""
        limit = next(f"{s} s, 500 MB" for n, s in reversed(_LIMITS.items()) if name.startswith(n))
        table.add_row(name, f"{wall:.1f}", f"{cpu:.1f}", f"{memory / 1e6:.0f}", asked, limit)


def _run(arguments: Sequence[str], variables: Mapping[str, str]) -> tuple[float, float, int]:
    """Seconds on the clock, of the processor, and bytes of memory of a command that succeeds."""
    command = [sys.executable, "-m", "modelwheel", *arguments]
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            [sys.executable, "-S", "-c", _LAUNCHER, *command],
            stdout=subprocess.PIPE,
            stderr=said,
            env={**os.environ, **variables},
            check=False,
        )
        if done.returncode:
            said.seek(0)
            sys.exit(said.read().decode()[-2000:])
    wall, cpu, memory = json.loads(done.stdout)
    return float(wall), float(cpu), int(memory)


_LAUNCHER = """
import json, os, subprocess, sys, time
start = time.monotonic()
process = subprocess.Popen(sys.argv[1:], stdout=sys.stderr)
_, status, used = os.wait4(process.pid, 0)
print(json.dumps([time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]))
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""Starts a command from a small process: on Linux, the most memory of a command counts that of the process that has started it."""


@contextmanager
def _bucket(store: Path) -> Iterator[tuple[str, Mapping[str, str], Counter[str]]]:
    """A bucket with a copy of a store: its URL, the variables with which it is found, and the requests to it."""
    import boto3
    from moto.server import ThreadedMotoServer
    from werkzeug.serving import WSGIRequestHandler

    requests: Counter[str] = Counter()

    def count(handler: WSGIRequestHandler, *_: object) -> None:
        requests[handler.command] += 1

    WSGIRequestHandler.log_request = count  # type: ignore[assignment,method-assign]
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        variables = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        os.environ.update(variables)
        client = boto3.client("s3")
        client.create_bucket(Bucket="models")
        # As a release engineer moves a store: with packs, so that a first machine does not ask for each record.
        copied = {**variables, "MODELWHEEL_CACHE_DIR": str(store)}
        _run(("cache", "copy", str(store), "s3://models"), copied)
        yield "s3://models", variables, requests
    finally:
        server.stop()


if __name__ == "__main__":
    main()
