"""Kills builds and uploads, and says what was left: `python -m tests.kills 200`.

Every build begins with an empty store, so that kills spread over all steps, and none falls into what is cached. Most
are builds of toys, which take a second; `--real SPEC` adds kills of real builds of a spec, for each of its steps.
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
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.kills.attempts import Attempt, RealBuilds, ToyBuilds, adopt_orphans
from tests.kills.uploads import Uploads

_UPLOADS = 6
"""One kill of so many is one of an upload."""


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
    done = []
    # Not a TemporaryDirectory, which forked processes would remove when they end.
    directory = Path(tempfile.mkdtemp(prefix="modelwheel-kills-"))
    try:
        attempts = _real(given, directory) if given.real is not None else _toys(given, directory)
        for what, attempt in attempts:
            done.append({"what": what, **vars(attempt)})
            sys.stderr.write(
                f"killed  {what}: {attempt.where}; {attempt.problems or 'nothing left'}\n"
            )
    finally:
        shutil.rmtree(directory)
    return done


def _real(given: argparse.Namespace, directory: Path) -> Iterator[tuple[str, Attempt]]:
    random = Random(given.seed * 1000 + given.share)
    builds = RealBuilds.prepare(directory / "real", given.real)
    for number in range(given.share, given.kills, given.jobs):
        yield "real build", builds.attempt(builds.steps[number % len(builds.steps)], random)


def _toys(given: argparse.Namespace, directory: Path) -> Iterator[tuple[str, Attempt]]:
    random = Random(given.seed * 1000 + given.share)
    toys = ToyBuilds.prepare(directory / "toys")
    with Uploads.prepare(directory / "uploads") as uploads:
        for number in range(given.share, given.kills, given.jobs):
            turn, upload = divmod(number, _UPLOADS)
            if upload == _UPLOADS - 1:
                uploaded = uploads.steps[turn % len(uploads.steps)]
                yield "upload", uploads.attempt(uploaded, random)
            else:
                yield "toy build", toys.attempt(toys.steps[number % len(toys.steps)], random)


def _report(attempts: list[dict[str, Any]], seed: int, seconds: float) -> int:
    counts = Counter((each["what"], each["where"]) for each in attempts)
    for (what, where), count in sorted(counts.items()):
        _say(f"{count:5}  {what}: {where}")
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
