"""Requests to workers: what they ask for, and what their results depend on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwheel.compiler import inspection
from modelwheel.compiler.compile import CompileRequest, cpp_class, xla_flags
from modelwheel.compiler.freeze import FreezeRequest, FrozenSignature, FrozenTensor, c_names
from modelwheel.compiler.jobs import Flags
from modelwheel.compiler.reference import Reference, ReferenceRequest, default_rows
from modelwheel.levels import LEVELS
from modelwheel.platforms import PLATFORMS
from modelwheel.store.keys import action_key

_V3 = LEVELS["x86-64-v3"]


def test_names_become_identifiers() -> None:
    names = ["x", "detector/energy", "detector_energy", "1st", "a-b", "a.b", "größe", "", "class"]
    assert c_names(names) == (
        *("x", "detector_energy", "detector_energy_2", "_1st"),
        *("a_b", "a_b_2", "gr__e", "_", "class_"),
    )


@given(st.lists(st.text(max_size=8), unique=True, max_size=12))
def test_identifiers_are_unique_whatever_the_names(names: list[str]) -> None:
    found = c_names(names)
    assert len(set(found)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII) for name in found)


@pytest.mark.parametrize(
    ("batch_sizes", "rows"),
    [
        ([1, 4, 16], (1, 3, 4, 7, 16, 19)),
        ([16, 1, 4], (1, 3, 4, 7, 16, 19)),
        ([1], (1, 4)),
        ([1, 2, 4], (1, 2, 3, 4, 7)),
        ([8], (8, 11)),
    ],
)
def test_rows_to_evaluate(batch_sizes: list[int], rows: tuple[int, ...]) -> None:
    assert default_rows(batch_sizes) == rows


def test_flags_of_a_level_with_those_of_the_spec_last() -> None:
    flags = xla_flags(LEVELS["x86-64-v4"], ["--xla_cpu_enable_fast_math=false"])
    assert "--xla_cpu_multi_thread_eigen=true" in flags
    assert "--xla_cpu_experimental_ynn_fusion_type=" in flags
    assert flags[-2:] == (
        "--xla_cpu_prefer_vector_width=512",
        "--xla_cpu_enable_fast_math=false",
    )


def test_classes_differ_by_model_batch_size_and_level() -> None:
    assert cpp_class("digits", 4, _V3) == "mw::digits_b4_x86_64_v3"
    assert cpp_class("digits", None, LEVELS["armv8-a"]) == "mw::digits_armv8_a"


_FREEZE = FreezeRequest("serving_default", 4)
_COMPILE = CompileRequest(PLATFORMS["linux-x86_64"], _V3, "mw::a", Flags(("--xla_a=1",)))
_REFERENCE = ReferenceRequest("serving_default", (1, 4))


def _key(kind: str, inputs: dict[str, Any]) -> str:
    return action_key(kind, **inputs)


@pytest.mark.parametrize(
    "change",
    [
        lambda: _key("freeze", replace(_FREEZE, signature="other").key_inputs("tree")),
        lambda: _key("freeze", replace(_FREEZE, batch=1).key_inputs("tree")),
        lambda: _key("freeze", replace(_FREEZE, batch=None).key_inputs("tree")),
        lambda: _key("freeze", replace(_FREEZE, shapes={"x": [None, 4]}).key_inputs("tree")),
        lambda: _key("freeze", replace(_FREEZE, allow_pruned_inputs=True).key_inputs("tree")),
        lambda: _key("freeze", _FREEZE.key_inputs("other tree")),
    ],
)
def test_what_a_frozen_graph_depends_on(change: Callable[[], str]) -> None:
    assert change() != _key("freeze", _FREEZE.key_inputs("tree"))


@pytest.mark.parametrize(
    "change",
    [
        lambda: replace(_COMPILE, level=LEVELS["x86-64"]).key_inputs("g", "c"),
        lambda: replace(_COMPILE, platform=PLATFORMS["macos-x86_64"]).key_inputs("g", "c"),
        lambda: replace(_COMPILE, cpp_class="mw::b").key_inputs("g", "c"),
        lambda: replace(_COMPILE, flags=Flags(("--xla_a=2",))).key_inputs("g", "c"),
        lambda: replace(_COMPILE, flags=Flags(("--xla_a=1",), ("--tf_b",))).key_inputs("g", "c"),
        lambda: _COMPILE.key_inputs("other", "c"),
        lambda: _COMPILE.key_inputs("g", "other"),
    ],
)
def test_what_a_compiled_program_depends_on(change: Callable[[], dict[str, Any]]) -> None:
    assert _key("compile", change()) != _key("compile", _COMPILE.key_inputs("g", "c"))


@pytest.mark.parametrize(
    "change",
    [
        replace(_REFERENCE, seed=1),
        replace(_REFERENCE, batch_sizes=(1, 2)),
        replace(_REFERENCE, rows=(1, 4, 9)),
        replace(_REFERENCE, ranges={"x": (0.0, 1.0)}),
        replace(_REFERENCE, shapes={"x": (None, 4)}),
    ],
)
def test_what_a_reference_depends_on(change: ReferenceRequest) -> None:
    assert _key("r", change.key_inputs("tree")) != _key("r", _REFERENCE.key_inputs("tree"))


def test_the_same_request_has_the_same_key_however_it_is_written() -> None:
    one = ReferenceRequest("s", (4, 1), shapes={"a": (None, 2), "b": (3,)})
    other = ReferenceRequest("s", (1, 4), default_rows([1, 4]), shapes={"b": [3], "a": [None, 2]})
    assert _key("r", one.key_inputs("tree")) == _key("r", other.key_inputs("tree"))


def test_jobs_name_absolute_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    message = _COMPILE.job(Path("frozen"), Path("out")).message(3)
    assert message["id"] == 3
    assert message["out"] == str(tmp_path / "out")
    assert message["inputs"] == {
        "graph": str(tmp_path / "frozen" / "graph.pb"),
        "config": str(tmp_path / "frozen" / "config.pb"),
    }
    assert inspection.job(Path("model"), tmp_path).message(1)["kind"] == "inspect"


def test_results_survive_being_written(tmp_path: Path) -> None:
    tensor = FrozenTensor(name="a/b", c_name="a_b", dtype="float32", shape=(4, 2))
    signature = FrozenSignature(
        key="serving_default",
        batch=4,
        inputs=(tensor,),
        outputs=(tensor,),
        batched_inputs=("a/b",),
        pruned_inputs=(),
    )
    signature.save(tmp_path / "signature.json")
    assert FrozenSignature.load(tmp_path / "signature.json") == signature
    reference = Reference(
        independent=False,
        reason="rows interact",
        leading_per_row={"y": 0},
        batched_inputs=("x",),
        rows=(1, 4),
    )
    reference.save(tmp_path / "reference.json")
    assert Reference.load(tmp_path / "reference.json") == reference
