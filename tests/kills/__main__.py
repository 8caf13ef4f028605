"""Kills builds and uploads, and says what was left: `python -m tests.kills 200`.

A process is killed at one of its operations: a file that is created, written, synced, renamed or removed, a packet that
is sent or awaited. Each operation has its turn, in an order that the seed decides. Some builds of toys are killed at
random moments, while workers compute. `--real SPEC` kills real builds of a spec instead, during each of its steps.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from tests.kills.attempts import Attempt, RealBuilds, ToyBuilds
from tests.kills.publishing import Releases, ReleasesOffline, Uploads, UploadsOffline
from tests.kills.remote import RemoteWrites
from tests.kills.scenarios import Builds, Collections, Deliveries, Scenario, StoreWrites
from tests.support.faults.calls import compile_library
from tests.support.faults.victims import adopt_orphans

SCENARIOS: Sequence[type[Scenario]] = (
    *(StoreWrites, Builds, Uploads, Collections, Deliveries, Releases),
    *(UploadsOffline, ReleasesOffline, RemoteWrites),
)
"""Killed in turns; after each round, a build at a random moment."""


def main() -> int:
    """Shares the kills among processes, each of which is the parent of what its victims leave."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("kills", type=int, help="how many builds and uploads are killed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at the same time")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100_000)
    parser.add_argument(
        "--real", type=Path, metavar="SPEC", help="a spec for builds with TensorFlow"
    )
    parser.add_argument("--share", type=int, metavar="N", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.share is not None:
        json.dump(_run(given), sys.stdout)
        return 0
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        library = compile_library(Path(directory))
        if library is None:
            parser.error("this needs Linux and a C compiler")
        os.environ["LD_PRELOAD"] = str(library)  # for the shares
        return _share(given, begun)


def _share(given: argparse.Namespace, begun: float) -> int:
    command = [sys.executable, "-m", "tests.kills", str(given.kills), "--jobs", str(given.jobs)]
    command += ["--seed", str(given.seed), *(["--real", str(given.real)] if given.real else [])]
    shares = [
        subprocess.Popen([*command, "--share", str(number)], stdout=subprocess.PIPE)
        for number in range(given.jobs)
    ]
    attempts: list[dict[str, Any]] = []
    for share in shares:
        out, _ = share.communicate()
        if share.returncode != 0:
            return 1
        attempts += json.loads(out)
    return _report(attempts, given.seed, time.monotonic() - begun)


def _run(given: argparse.Namespace) -> list[dict[str, Any]]:
    adopt_orphans()
    os.environ.pop("LD_PRELOAD", None)
    done = []
    # Not a TemporaryDirectory, which forked processes would remove when they end.
    directory = Path(tempfile.mkdtemp(prefix="modelwheel-kills-"))
    try:
        attempts = _real(given, directory) if given.real is not None else _toys(given, directory)
        for attempt in attempts:
            done.append(vars(attempt))
            sys.stderr.write(
                f"killed  {attempt.what}: {attempt.where}; {attempt.problems or 'nothing left'}\n"
            )
    finally:
        shutil.rmtree(directory)
    return done


def _real(given: argparse.Namespace, directory: Path) -> Iterator[Attempt]:
    random = Random(given.seed * 1000 + given.share)
    builds = RealBuilds.prepare(directory / "real", given.real)
    for number in range(given.share, given.kills, given.jobs):
        yield builds.attempt(builds.steps[number % len(builds.steps)], random)


def _toys(given: argparse.Namespace, directory: Path) -> Iterator[Attempt]:
    moments = Random(given.seed * 1000 + given.share)
    toys = ToyBuilds.prepare(directory / "toys")
    scenarios: dict[type[Scenario], Scenario] = {}
    with ExitStack() as stack:
        for number in range(given.share, given.kills, given.jobs):
            turn, which = divmod(number, len(SCENARIOS) + 1)
            if which == len(SCENARIOS):
                yield toys.attempt(toys.steps[turn % len(toys.steps)], moments)
                continue
            kind = SCENARIOS[which]
            if kind not in scenarios:
                scenarios[kind] = kind(directory / kind.__name__)
                stack.callback(scenarios[kind].close)
            yield scenarios[kind].attempt(turn, given.seed)


def _report(attempts: list[dict[str, Any]], seed: int, seconds: float) -> int:
    for what, count in sorted(Counter(each["what"] for each in attempts).items()):
        places = {each["where"] for each in attempts if each["what"] == what}
        _say(f"{count:5}  {what}, at {len(places)} places")
    longest = max((each["survivors_seconds"] for each in attempts), default=0.0)
    _say(
        f"{len(attempts)} kills in {seconds:.0f} s, seed {seed}; the last process lived {longest:.1f} s"
    )
    wrong = [each for each in attempts if each["problems"]]
    for each in wrong:
        _say(f"WRONG  {each['what']}: {each['where']}: {'; '.join(each['problems'])}")
    _say("nothing torn, nothing lost, nothing twice, no process left" if not wrong else "")
    return bool(wrong)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
