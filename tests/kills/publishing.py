"""Releases whose publication is killed at each operation on the network and on the disk."""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from modelwheel.cli import main
from tests.kills.attempts import examine_files
from tests.kills.scenarios import Scenario
from tests.support import index_wheels
from tests.support.faults.calls import DISK, NETWORK
from tests.support.faults.victims import Victim, say
from tests.support.github import GitHub, serve_github
from tests.support.indexes import (
    PASSWORD,
    USER,
    Faults,
    make_wheel,
    serve_faulty,
    serve_index,
)
from tests.support.sources import read
from tests.support.waiting import wait_until

_MODELS = 3
_TAG = "digits-1.0.0"


@contextmanager
def serving(serve: Callable[[], object]) -> Iterator[Victim]:
    """A server in a process of its own, until the block ends."""
    server = Victim(serve)
    try:
        yield server
    finally:
        server.kill()
        server.finish()


def _publish(place: Path, *arguments: object) -> None:
    os.environ["MODELWHEEL_CACHE_DIR"] = str(place / "cache")
    sleep = time.sleep
    time.sleep = lambda seconds: sleep(min(float(seconds), 0.01))  # between attempts
    sys.argv = ["modelwheel", "publish", *map(str, arguments), "--json"]
    main()


def _uploaded(lines: Sequence[str]) -> list[str]:
    """What a publication says that it has uploaded."""
    said, _ = json.JSONDecoder().raw_decode("".join(lines[lines.index("{") :]))
    return list(said["uploaded"])


class Uploads(Scenario):
    """`modelwheel publish` to a package index."""

    name = "upload"
    calls: Sequence[str] = (*NETWORK, *DISK)

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        random = Random(0)
        for number in range(_MODELS):
            # Incompressible, so that an upload takes more than one packet.
            content = random.randbytes(1 << 17).hex()
            make_wheel(directory / "dist", f"model-{number}", content=content)
        self._wheels = read(directory / "dist")
        self._before: set[str] = set()
        self._index = self._open.enter_context(serve_index(directory / "index"))
        # pypiserver alone stores what arrived of an upload that breaks off; no server may, and
        # behind a proxy that buffers requests, as nginx does, it does not.
        proxy = self._open.enter_context(serving(self._serve))
        self._url = proxy.lines.readline().strip()

    def begin(self, place: Path) -> None:  # noqa: ARG002
        for file in self._index.directory.iterdir():
            file.unlink()

    def _serve(self) -> None:
        with serve_faulty(self._index, Faults()) as url:
            say(url)
            threading.Event().wait()

    def act(self, place: Path) -> None:
        os.environ |= {
            "TWINE_USERNAME": USER,
            "TWINE_PASSWORD": PASSWORD,
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        }
        url = ("--repository-url", self._url, "--any-index")
        _publish(place, self.directory / "dist", *url)

    def examine(self, place: Path, *, complete: bool) -> Iterator[str]:  # noqa: ARG002
        time.sleep(0.05)  # for the server to store what it has received
        self._before = set(self._index.release())
        yield from examine_files(self._index.directory, self._wheels, complete=complete)

    def repeated(self, said: Sequence[str], again: Sequence[str]) -> Iterator[str]:  # noqa: ARG002
        yield from (f"uploaded twice: {n}" for n in _uploaded(again) if n in self._before)


class UploadsOffline(Uploads):
    """The same without a network, once or from then on."""

    name = "upload without network"
    calls: Sequence[str] = NETWORK
    error = errno.ENETUNREACH


@dataclass
class _Recorded(GitHub):
    """Remembers which files it has stored as a whole."""

    stored: list[str] = field(default_factory=list)

    def add(self, release: dict[str, Any], name: str, content: bytes | None) -> dict[str, Any]:
        if content is not None:
            self.stored.append(name)
        return super().add(release, name, content)


class Releases(Scenario):
    """`modelwheel publish --mode github`."""

    name = "release on GitHub"
    calls: Sequence[str] = (*NETWORK, *DISK)

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        (directory / "dist").mkdir()
        for python in ("cp311", "cp312"):
            tag = f"{python}-{python}-manylinux_2_28_x86_64"
            index_wheels.make_wheel(directory / "dist", "digits", tag=tag)
        self._wheels = read(directory / "dist")
        self._github = _Recorded()

    @contextmanager
    def around(self, place: Path) -> Iterator[None]:  # noqa: ARG002
        """A repository with a tag and without releases."""
        self._github = _Recorded(tags={_TAG})
        with serve_github(self._github):
            self._threads = threading.active_count()
            yield

    def act(self, place: Path) -> None:
        os.environ |= self._github.environment
        _publish(place, self.directory / "dist", "--mode", "github")

    def examine(self, place: Path, *, complete: bool) -> Iterator[str]:  # noqa: ARG002
        # What it has received, it also stores.
        wait_until(lambda: threading.active_count() <= self._threads)
        github = self._github
        if len(github.releases) > 1:
            yield f"{len(github.releases)} releases"
        twice = [name for name, times in Counter(github.stored).items() if times > 1]
        yield from (f"uploaded twice: {name}" for name in twice)
        public = github.release(_TAG)
        if public or complete:
            files = {name: c for name, c in public.items() if name in self._wheels}
            if files != self._wheels or len(public) != len(files) + 1:
                yield f"the release has {sorted(public)}"


class ReleasesOffline(Releases):
    """The same when connections break, once or from then on."""

    name = "release on GitHub without network"
    calls: Sequence[str] = NETWORK
    error = errno.ECONNRESET
