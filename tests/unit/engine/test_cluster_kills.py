"""Six toy models on a cluster whose workers are killed at random: everything is there, and nothing finished was done twice."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from modelwheel.engine.scheduler import Task, Tools, run_steps
from modelwheel.engine.steps.base import Step
from modelwheel.store.store import Store
from tests.scale.killing import kill_one
from tests.support.cluster_toys import ClusterToy, chain, noted
from tests.support.clusters import cluster, run_toys
from tests.support.sandboxes import NONE
from tests.support.toys import Recorder, ThreadPool

_MODELS, _LENGTH = 6, 5
_STARTS = 8
"""After so many steps have begun, a worker is killed: how slow a machine is does not matter."""
_KILLS = 3
"""A step whose worker dies more often fails: it may be the reason."""


def _models(diary: Path) -> list[Sequence[Step]]:
    """Models of which each has steps of its own, and one that needs a step which all of them have."""
    found: list[Sequence[Step]] = []
    for number in range(_MODELS):
        steps = chain(diary, f"model{number}", _LENGTH, "sleep 0.3")
        shared = ClusterToy("shared", (), diary, "sleep 0.3")
        found.append(
            [*steps, shared, ClusterToy(f"model{number}/end", (steps[-1].name, "shared"), diary)]
        )
    return found


def test_random_kills_lose_nothing_and_repeat_nothing_that_was_finished(
    tmp_path: Path, store: Store
) -> None:
    diary = tmp_path / "diary"
    diary.mkdir()
    models = _models(diary)
    chosen, starts = random.Random(1), itertools.count(1)
    killed: set[int] = set()

    def disturb(event: str, _: str) -> None:
        if event == "started" and next(starts) % _STARTS == 0 and len(killed) < _KILLS:
            killed.update(filter(None, [kill_one(roots, chosen)]))

    told = Recorder(on_event=disturb)
    with cluster() as found:
        roots = [one.pid for one in found.workers]
        outcomes = run_toys(found.address, store, *models, reporter=told)
    assert not [outcome.errors for outcome in outcomes if outcome.errors]
    assert len(killed) == _KILLS

    # Counted: whatever began more than once was running in a worker that was killed.
    names = {step.name for steps in models for step in steps}
    for name in names:
        *lost, last = noted(diary, name)
        assert set(lost) <= killed, name
        assert last in noted(diary, name, "ended"), name
    # One whose worker died before it could answer is taken from the store.
    ended = Counter(told.of("finished") + told.of("cached"))
    assert ended.pop("shared") == _MODELS
    assert ended == Counter(names - {"shared"})

    undisturbed = Store(tmp_path / "undisturbed")
    with ThreadPool(1) as pool:
        tools = Tools(undisturbed, pool, Recorder(), NONE)
        again = run_steps([Task(steps, tmp_path) for steps in models], tools)
    for one, other in zip(outcomes, again, strict=True):
        assert {n: r.files for n, r in one.records.items()} == {
            n: r.files for n, r in other.records.items()
        }
    undisturbed.close()
