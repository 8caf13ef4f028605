"""Kills uploads to a real package index between files and in the middle of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from modelwheel.cli import main
from tests.kills.attempts import Attempt, Victim, examine_files
from tests.kills.toy_build import say
from tests.support.indexes import (
    PASSWORD,
    USER,
    Faults,
    Index,
    make_wheel,
    serve_faulty,
    serve_index,
)

_MODELS = 6


def _serve(index: Index) -> None:
    with serve_faulty(index, Faults()) as url:
        say(url)
        threading.Event().wait()


@dataclass(frozen=True)
class Uploads:
    """Kills `modelwheel publish`."""

    directory: Path
    index: Index
    url: str
    wheels: dict[str, bytes]

    steps = tuple(range(_MODELS))
    """How many files are uploaded before the kill."""

    @classmethod
    @contextmanager
    def prepare(cls, directory: Path) -> Iterator[Uploads]:
        """Starts an empty index, and makes a release of several wheels."""
        directory.mkdir()
        random = Random(0)
        for number in range(_MODELS):
            # Incompressible, so that an upload takes more than one packet.
            make_wheel(
                directory / "dist", f"model-{number}", content=random.randbytes(1 << 17).hex()
            )
        with serve_index(directory / "index") as index:
            whole = {path.name: path.read_bytes() for path in (directory / "dist").iterdir()}
            # pypiserver alone stores what arrived of an upload that breaks off; no server may, and
            # behind a proxy that buffers requests, as nginx does, it does not.
            proxy = Victim(lambda: _serve(index))
            try:
                yield cls(directory, index, proxy.lines.readline().strip(), whole)
            finally:
                proxy.kill()
                proxy.finish()

    def _publish(self) -> None:
        os.environ |= {
            "TWINE_USERNAME": USER,
            "TWINE_PASSWORD": PASSWORD,
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
            "MODELWHEEL_CACHE_DIR": str(self.directory / "cache"),
        }
        url = ("--repository-url", self.url, "--any-index", "--json")
        sys.argv = ["modelwheel", "publish", str(self.directory / "dist"), *url]
        main()

    def attempt(self, uploaded: int, random: Random) -> Attempt:
        """Kills a release once so many of its files are on the index, or a moment later."""
        shutil.rmtree(self.index.directory)
        self.index.directory.mkdir()
        victim = Victim(self._publish)
        until = time.monotonic() + 60
        while len(list(self.index.directory.iterdir())) < uploaded and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(random.uniform(0, 0.3 if uploaded == 0 else 0.05))
        with suppress(ProcessLookupError):
            victim.kill()
        code, _ = victim.finish()
        left, seconds = victim.survivors()
        time.sleep(0.05)  # for the server to store what it has received
        there = self.index.release()
        attempt = Attempt(f"{len(there)} of {_MODELS} uploaded", [], seconds)
        attempt.problems += [f"survived: {each}" for each in left]
        if code not in (0, -signal.SIGKILL):
            attempt.problems.append(f"ended with {code}")
        attempt.problems += examine_files(self.index.directory, self.wheels)
        code, lines = Victim(self._publish).finish()
        if code != 0:
            attempt.problems.append(f"the next run ended with {code}: {lines[-1:]}")
            return attempt
        said = json.loads("".join(lines[lines.index("{") :]))
        attempt.problems += [
            f"uploaded twice: {name}" for name in said["uploaded"] if name in there
        ]
        attempt.problems += examine_files(self.index.directory, self.wheels, complete=True)
        return attempt
