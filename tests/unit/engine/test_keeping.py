"""Which results specs and files of releases need, in a real store; nothing runs."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from modelwheel.engine.keeping import needed_results
from modelwheel.engine.notes import meaning_key
from modelwheel.engine.planning.plan import plan
from modelwheel.errors import StoreError
from modelwheel.model.inspection import INSPECTION
from modelwheel.request import make_request
from modelwheel.spec import load_spec
from modelwheel.store.keys import action_key
from modelwheel.store.store import Store
from tests.support.commands import write_tiny_spec
from tests.support.index_wheels import make_wheel
from tests.support.stores import make
from tests.support.toy_worker import inspection

TREE, OTHER = sha256(b"tree").hexdigest(), sha256(b"other").hexdigest()


def test_what_a_spec_needs_and_what_its_hashes_mean(store: Store, tmp_path: Path) -> None:
    request = make_request(load_spec(write_tiny_spec(tmp_path)))
    inspect = next(step for step in plan(request, store) if step.kind == "inspect")
    assert inspect.key is not None
    note = {"step": inspect.name, "kind": "inspect", "inputs": {"model": TREE}}
    (tmp_path / "made").mkdir()
    inspection().save(tmp_path / "made" / INSPECTION)
    store.publish(inspect.key, tmp_path / "made", note)
    (tmp_path / "nothing").mkdir()
    for hashed in (TREE, OTHER):
        store.publish(meaning_key(hashed), tmp_path / "nothing", {"kind": "meaning"})
    old = action_key("old")
    store.publish(old, make(tmp_path / "old", {"old": b"old"}), {"step": "old/inspect"})
    needed, silent = needed_results(store, [request], [])
    assert {inspect.key, meaning_key(TREE)} <= needed
    assert not {old, meaning_key(OTHER)} & needed
    assert silent == set()


def test_a_wheel_that_the_store_has_made(store: Store, tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    wheel = make_wheel(tmp_path / "dist", "digits")
    with pytest.raises(StoreError, match="has nothing that") as caught:
        needed_results(store, [], [wheel])
    assert caught.value.code == "MW705"
    made, beside, other = (action_key(name) for name in ("wheel", "verify", "other"))
    store.publish(made, tmp_path / "dist", {"step": "digits-1.0.0/wheel"})
    for key, step in ((beside, "digits-1.0.0/verify"), (other, "other-1.0.0/verify")):
        store.publish(key, make(tmp_path / step, {"report": step.encode()}), {"step": step})
    needed, silent = needed_results(store, [], [wheel])
    assert needed == {made, beside}
    # They do not say what they were made from.
    assert silent == {made, beside}


def test_what_another_model_built_first(store: Store, tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    wheel = make_wheel(tmp_path / "dist", "digits")
    made, kernels, tested, other = (action_key(name) for name in ("w", "kernels", "verify", "o"))
    needs = {made: {"digits-1.0.0/kernels": kernels}, tested: {"copy-1.0.0/wheel": made}}
    store.publish(made, tmp_path / "dist", {"step": "digits-1.0.0/wheel", "needs": needs[made]})
    for key, kind in ((kernels, "kernels"), (tested, "verify"), (other, "kernels")):
        note = {"step": f"copy-1.0.0/{kind}", "kind": kind, "needs": needs.get(key, {})}
        store.publish(key, make(tmp_path / key, {"result": key.encode()}), note)
    needed, _ = needed_results(store, [], [wheel])
    assert needed == {made, kernels, tested}
