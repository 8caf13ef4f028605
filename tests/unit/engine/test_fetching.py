"""Models are fetched side by side; each spec starts when its own is there, and nothing is left behind."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from modelwheel.engine import fetching
from modelwheel.engine.fetching import side_by_side
from modelwheel.engine.scheduler import Later, Outcome, Task, run_on
from modelwheel.source import fetch as source
from modelwheel.store.store import Store
from modelwheel.util.processes.process import ProcessError, run
from tests.support.toys import Recorder
from tests.unit.engine.test_build import build_specs, write_spec

pytestmark = pytest.mark.usefixtures("nothing_ahead")


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()} & {"fetch"}


def test_results_are_in_their_order_whatever_arrives_first() -> None:
    last = threading.Event()

    def first(check: Callable[[], None]) -> str:  # noqa: ARG001
        assert last.wait(30)
        return "first"

    def second(check: Callable[[], None]) -> str:  # noqa: ARG001
        last.set()
        return "second"

    with side_by_side([first, second]) as futures:
        assert [future.result(30) for future in futures] == ["first", "second"]
    assert not _threads()


def test_ctrl_c_ends_threads_and_their_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    began, ended = threading.Barrier(3), []

    def download(check: Callable[[], None]) -> None:
        began.wait(30)
        try:
            while True:
                check()
                time.sleep(0.01)
        finally:
            ended.append("download")

    def clone(check: Callable[[], None]) -> None:  # noqa: ARG001
        began.wait(30)
        with pytest.raises((ProcessError, subprocess.SubprocessError)):
            run(["sleep", "600"])
        ended.append("clone")

    def never(check: Callable[[], None]) -> None:  # noqa: ARG001
        ended.append("never")

    monkeypatch.setattr(fetching, "_AT_ONCE", 2)

    def build() -> None:
        with side_by_side([download, clone, never]):
            began.wait(30)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build()
    assert sorted(ended) == ["clone", "download"]
    assert not _threads()


def test_a_spec_starts_while_the_model_of_another_is_on_its_way(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    inspected, real = threading.Event(), source.fetch

    def fetch(origin: Any, *arguments: Any, **options: Any) -> source.FetchedModel:
        if "slow" in str(origin):
            assert inspected.wait(60), "nothing started before this model was there"
        return real(origin, *arguments, **options)

    class Watching(Recorder):
        def started(self, name: str, worker: str | None = None) -> None:
            super().started(name, worker)
            if name.endswith("/inspect"):
                inspected.set()

    monkeypatch.setattr(source, "fetch", fetch)
    specs = []
    for name in ("slow", "quick"):
        (tmp_path / name).mkdir()
        specs.append(write_spec(tmp_path / name, name=name, behaviour=f"refuse {name}"))
    results = build_specs(store, *specs, reporter=Watching())
    # In the order of the specs, as always.
    assert [[(step, str(error)) for step, error in one.errors] for one in results] == [
        [("slow-1.0.0/inspect", "slow")],
        [("quick-1.0.0/inspect", "quick")],
    ]


def test_what_cannot_be_had_has_no_steps() -> None:
    class Nobody:
        def submit(self, *_: object) -> Future[Any]:
            raise AssertionError

        def stop(self, futures: object) -> None:
            assert not futures

    nothing: Future[None] = Future()
    threading.Timer(0.05, nothing.set_result, [None]).start()
    tasks: list[Task | Later] = [Later(nothing, lambda: None), Task((), Path())]
    assert run_on(Nobody(), tasks, Recorder()) == [Outcome(), Outcome()]
