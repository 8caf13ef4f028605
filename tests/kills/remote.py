"""A store in S3 whose writers are killed at each of their requests, and at each change of their copies on this disk."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import boto3
import pytest
import s3fs  # noqa: F401 - once, and not in each process that is killed

from modelwheel.store.keys import action_key
from modelwheel.store.opening import open_store
from modelwheel.store.store import Store
from modelwheel.store.upkeep.whole import verify_store
from tests.kills.publishing import serving
from tests.kills.scenarios import Scenario
from tests.support.faults.calls import DISK, NETWORK
from tests.support.faults.victims import Victim, say
from tests.support.object_stores import BUCKET, serve_s3, use_s3
from tests.support.stores import CONTENT, KEY, make

_ONCE = ("actions/", "blobs/")
"""What nobody may write a second time."""


def _serve() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch, serve_s3(patch):
        client = boto3.client("s3")
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        say(os.environ["AWS_ENDPOINT_URL"])
        threading.Event().wait()


class RemoteWrites(Scenario):
    """Results are stored in an object store, through a cache on this disk."""

    name = "store write in S3"
    calls: Sequence[str] = (*NETWORK, *DISK)

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._made = make(directory / "made")
        server = self._open.enter_context(serving(_serve))
        self._endpoint = server.lines.readline().strip()

    def _store(self, place: Path) -> Store:
        use_s3(self._endpoint, pytest.MonkeyPatch())  # in a process of its own
        return open_store(f"s3://{BUCKET}/{place.name}", cache=place / "cache")

    def act(self, place: Path) -> None:
        with closing(self._store(place)) as store:
            for number in (1, 2):
                store.publish(action_key("test", input=number), self._made)

    def examine(self, place: Path, *, complete: bool) -> Iterator[str]:
        # Not in this process: threads of the client would not survive its forks.
        code, said = Victim(lambda: self._look(place, complete=complete)).finish()
        if code != 0:
            yield f"cannot be read: {said[-1:]}"
        yield from (line.partition(" ")[2] for line in said if line.startswith("WRONG "))

    def _look(self, place: Path, *, complete: bool) -> None:
        with closing(self._store(place)) as store:
            for one in verify_store(store).damaged:
                say(f"WRONG damaged: {one.file}")
            found = store.lookup(KEY)
            if complete and found is None:
                say("WRONG lost")
            for name in () if found is None else CONTENT:
                if found is None or store.read_bytes(found, name) != CONTENT[name]:
                    say(f"WRONG torn: {name}")
        listed = boto3.client("s3").list_object_versions(Bucket=BUCKET, Prefix=f"{place.name}/")
        names = Counter(version["Key"].partition("/")[2] for version in listed["Versions"])
        for name, versions in names.items():
            if versions > 1 and name.startswith(_ONCE):
                say(f"WRONG uploaded twice: {name}")
