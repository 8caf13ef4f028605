"""Specs with nothing left to do: what is read, what is verified, and what happens to damage."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from modelwheel.engine.build import BuildOptions, BuildResult, build
from modelwheel.engine.cluster.address import OnCluster, Target
from modelwheel.engine.finished import Finished, find_all_finished
from modelwheel.request import Request
from modelwheel.sandbox.policy import Limits, Policy
from modelwheel.source import fetch as source
from modelwheel.store.store import Store
from tests.support.filled_stores import fill, load_requests, write_specs
from tests.support.sandboxes import NONE
from tests.support.stores import blob_file, every_record, open_store
from tests.support.toy_worker import COMMAND
from tests.support.toys import Recorder


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with specs of three models, and a store with all their results."""
    directory = tmp_path_factory.mktemp("filled")
    made = load_requests(write_specs(directory / "specs", 3))
    with open_store(directory / "store") as store:
        assert fill(store, made, directory / "scratch") == 3 * 18
    return directory


@pytest.fixture
def requests(filled: Path, store: Store) -> list[Request]:
    """The models; the test's own store has all their results."""
    shutil.copytree(filled / "store", store.root)
    return load_requests(sorted((filled / "specs").iterdir()))


def _build(requests: list[Request], store: Store, out: Path) -> tuple[list[BuildResult], Recorder]:
    reporter = Recorder()
    options = BuildOptions(out, NONE, max_workers=1, worker=COMMAND)
    return build(requests, store, options, reporter), reporter


def _find(requests: list[Request], root: Path) -> dict[str, Finished]:
    with open_store(root) as store:
        return find_all_finished(requests, store, "wheel")


def test_nothing_is_fetched_and_every_wheel_is_delivered(
    tmp_path: Path, store: Store, requests: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "fetch", lambda *_, **__: pytest.fail("a model was fetched"))
    results, reporter = _build(requests, store, tmp_path / "dist")
    assert [(len(result.run), len(result.cached)) for result in results] == [(0, 17)] * 3
    assert not reporter.of("started")
    assert len(reporter.of("cached")) == 3 * 18
    assert len(list((tmp_path / "dist").glob("*.whl"))) == 3
    assert all(result.report is not None and result.report.passed for result in results)


def test_a_cluster_that_is_away_is_not_missed(
    tmp_path: Path, store: Store, requests: list[Request]
) -> None:
    """Nobody listens at this port: a connection would end the build with MW763."""
    away = OnCluster(Target("tcp://127.0.0.1:9"), Policy.OFF, Limits())
    options = BuildOptions(tmp_path / "dist", NONE, max_workers=1, worker=COMMAND, cluster=away)
    results = build(requests, store, options, Recorder())
    assert [(len(result.run), len(result.errors)) for result in results] == [(0, 0)] * 3
    assert len(list((tmp_path / "dist").glob("*.whl"))) == 3


def test_what_is_delivered_already_stays_untouched(
    tmp_path: Path, store: Store, requests: list[Request]
) -> None:
    _build(requests, store, tmp_path / "dist")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "dist").iterdir()}
    (wheel, *_) = sorted((tmp_path / "dist").glob("*.whl"))
    content = wheel.read_bytes()
    wheel.write_bytes(b"another file")
    _build(requests, store, tmp_path / "dist")
    assert wheel.read_bytes() == content
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "dist").iterdir()}
    assert {path for path in before if before[path] != after[path]} == {wheel}


@pytest.mark.parametrize("damage", ["changed", "removed"])
def test_a_damaged_wheel_is_not_delivered(
    requests: list[Request], store: Store, damage: str
) -> None:
    found = _find(requests, store.root)[requests[0].name]
    record = found.records[f"{requests[0].name}/wheel"]
    (name,) = record.files
    path = blob_file(store, record, name)
    path.chmod(0o600)
    if damage == "changed":
        path.write_bytes(bytes(record.files[name].size))
    else:
        path.unlink()
    assert set(_find(requests, store.root)) == {request.name for request in requests[1:]}


def test_what_nobody_reads_is_not_hashed_but_must_be_there(
    requests: list[Request], store: Store
) -> None:
    found = _find(requests, store.root)[requests[0].name]
    record = found.records[f"{requests[0].name}/linux-x86_64/x86-64/b1"]
    path = blob_file(store, record, "kernels.o")
    path.chmod(0o600)
    path.write_bytes(bytes(record.files["kernels.o"].size))
    assert requests[0].name in _find(requests, store.root)
    path.write_bytes(b"shorter")
    assert requests[0].name not in _find(requests, store.root)


def test_the_use_of_every_record_is_noted(requests: list[Request], store: Store) -> None:
    for one in every_record(store):
        os.utime(store.record_path(one.record.key), (1, 1))
    _find(requests, store.root)
    assert all(one.used > 1 for one in every_record(store))
