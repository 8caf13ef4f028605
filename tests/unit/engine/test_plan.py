"""What a build would run, found in a real store; nothing runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.engine.planning.plan import plan
from modelwheel.engine.steps.model import InspectStep
from modelwheel.model.inspection import INSPECTION
from modelwheel.request import Request, make_request
from modelwheel.source.fetch import tree_sha256
from modelwheel.spec import load_spec
from modelwheel.store.store import Store
from tests.support.stores import make
from tests.support.toy_worker import inspection


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"toy")
    spec = tmp_path / "tiny.yaml"
    spec.write_text(
        'model: {name: tiny, version: "1.0.0", saved_model: ./model}\n'
        "compilation: {batch_sizes: [1, 4]}\ntargets: [x86-64]\n"
    )
    return make_request(load_spec(spec), platforms=["linux-x86_64"])


def _states(request: Request, store: Store) -> dict[str, str]:
    return {step.name.partition("/")[2]: step.state for step in plan(request, store)}


def test_everything_runs_at_first(request_: Request, store: Store) -> None:
    states = _states(request_, store)
    assert list(states) == [
        *("fetch", "inspect", "reference", "freeze/b1", "freeze/b4"),
        *("linux-x86_64/x86-64/b1", "linux-x86_64/x86-64/b4", "project"),
        *("objects", "kernels", "wheel", "verify"),
    ]
    # A local directory needs no fetching.
    assert {name for name, state in states.items() if state == "cached"} == {"fetch"}


def test_keys_are_known_as_far_as_results_are(
    request_: Request, store: Store, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    made.mkdir()
    inspection().save(made / INSPECTION)
    tree = tree_sha256(tmp_path / "model")
    store.publish(InspectStep(request_, tree).key(store, {}), made)

    steps = {step.name.partition("/")[2]: step for step in plan(request_, store)}
    assert {name for name, step in steps.items() if step.state == "cached"} == {"fetch", "inspect"}
    unknown = {name for name, step in steps.items() if step.key is None}
    assert unknown == {*list(steps)[5:]}

    freeze = steps["freeze/b4"]
    assert freeze.key is not None
    directory = tmp_path / "frozen"
    directory.mkdir()
    store.publish(freeze.key, make(directory, {"graph.pb": b"g", "config.pb": b"c"}))
    # The reference, for which compiling waits, is still to run.
    after = {step.name.partition("/")[2]: step for step in plan(request_, store)}
    assert after["freeze/b4"].state == "cached"
    assert after["linux-x86_64/x86-64/b4"].key is not None
    assert after["linux-x86_64/x86-64/b1"].key is None


def test_a_source_distribution_has_other_last_steps(request_: Request, store: Store) -> None:
    assert [step.kind for step in plan(request_, store, "sdist")][-2:] == ["project", "sdist"]
