"""Keys depend on everything that a result depends on, and on nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.store.keys import action_key, digest


def test_keys_depend_on_every_input_and_not_on_their_order() -> None:
    key = action_key("compile", flags=["a", "b"], batch=4)
    assert key == action_key("compile", batch=4, flags=["a", "b"])
    others = (
        action_key("freeze", flags=["a", "b"], batch=4),
        action_key("compile", flags=["b", "a"], batch=4),
        action_key("compile", flags=["a", "b"], batch="4"),
        action_key("compile", flags=["a", "b"]),
    )
    assert len({key, *others}) == 5
    assert key == digest({"kind": "compile", "inputs": {"flags": ["a", "b"], "batch": 4}})


def test_what_has_no_exact_json_form_is_no_key() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        action_key("x", tolerance=float("nan"))
    with pytest.raises(TypeError):
        action_key("x", path=Path())
