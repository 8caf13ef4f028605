"""What stands against a TensorFlow: its format, models that are not built, slower and larger wheels."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.adopt.environment import parse_candidate
from modelwheel.adopt.page import Outcome, verdict, write_page
from modelwheel.adopt.trial import Built, Trial
from modelwheel.adopt.verdict import objections
from modelwheel.bench.results import Machine
from modelwheel.bench.statistics import Spread
from modelwheel.errors import UsageError
from modelwheel.model.schema import Difference, Schema, differences, unread_thunks
from modelwheel.versions import ADOPTED, PINNED_TENSORFLOW, TENSORFLOW_VERSION

THUNK = "xla.cpu.ThunkProto"
OLD = Schema(
    types={
        THUNK: {"info": (1, "string"), "size": (2, "int64"), "gone": (3, "bool")},
        "xla.DebugOptions": {"xla_cpu_old": (4, "bool")},
    },
    thunks=("copy", "custom_call"),
    read=("copy",),
)
NEW = Schema(
    types={
        THUNK: {"info": (1, "string"), "size": (9, "int64"), "more": (5, "xla.New")},
        "xla.DebugOptions": {"xla_cpu_new": (5, "bool")},
        "xla.New": {},
    },
    thunks=("copy", "custom_call", "seed"),
    read=("copy",),
)
MACHINE = Machine(
    date="2026-01-01",
    cpu="A CPU",
    level="x86-64-v3",
    cores=2,
    load_average=None,
    system="Linux",
    python="3.11",
    modelwheel="1",
)


def same(value: float) -> Spread:
    """Rounds that all took the same."""
    return Spread(median=value, low=value, high=value)


@pytest.fixture
def wheel(tmp_path: Path) -> Built:
    """A wheel of 100 bytes."""
    path = tmp_path / "a.whl"
    path.write_bytes(bytes(100))
    return Built(path, (), None, None)


def test_differences_of_schemas() -> None:
    assert list(differences(OLD, NEW)) == [
        Difference("added", "xla.DebugOptions.xla_cpu_new"),
        Difference("removed", "xla.DebugOptions.xla_cpu_old"),
        Difference("added", "xla.New"),
        Difference("removed", f"{THUNK}.gone"),
        Difference("added", f"{THUNK}.more"),
        Difference("changed", f"{THUNK}.size", "int64 = 2, now int64 = 9"),
    ]


def test_only_removed_and_changed_fields_of_programs_break_a_reader() -> None:
    assert [one.what for one in differences(OLD, NEW) if one.breaks] == [
        f"{THUNK}.gone",
        f"{THUNK}.size",
    ]


def test_a_new_kind_of_thunk_that_is_not_read() -> None:
    assert unread_thunks(OLD, NEW) == ["seed"]
    assert unread_thunks(OLD, OLD) == []  # custom_call was there before


def test_nothing_stands_against_the_same(wheel: Built) -> None:
    trial = Trial("a-1.0", wheel, wheel, {1: same(1.0)})
    assert list(objections([], [], [trial])) == []
    outcome = Outcome("2.21.0", "9.0", [], [], [trial], [], MACHINE)
    assert verdict(outcome) == "TensorFlow 9.0 is ready to be adopted."


def test_a_model_that_is_no_longer_built(wheel: Built) -> None:
    refused = Built(None, (), "no kernel", None)
    trial = Trial("a-1.0", wheel, refused, {})
    assert list(objections([], [], [trial])) == ["a-1.0 is no longer built: no kernel"]


def test_a_model_that_both_refuse_alike_is_no_objection() -> None:
    refused = Built(None, (), "no kernel", None)
    assert list(objections([], [], [Trial("a-1.0", refused, refused, {})])) == []


def test_slower_and_larger_wheels(wheel: Built, tmp_path: Path) -> None:
    path = tmp_path / "b.whl"
    path.write_bytes(bytes(150))
    trial = Trial("a-1.0", wheel, Built(path, (), None, None), {1: same(1.5), 16: same(1.0)})
    assert list(objections([], [], [trial])) == [
        "a-1.0 takes 1.50 times as long with 1 row",
        "a-1.0 has a wheel of 1.50 times the size",
        "wheels take 1.22 times as long on average",
    ]


def test_noise_is_not_slower(wheel: Built) -> None:
    noisy = Spread(median=1.2, low=0.9, high=1.6)
    trial = Trial("a-1.0", wheel, wheel, {1: noisy, 16: same(0.8)})
    assert list(objections([], [], [trial])) == []


def test_the_page_has_verdict_objections_and_format(wheel: Built) -> None:
    changed = list(differences(OLD, NEW))
    against = list(objections(changed, ["seed"], []))
    trial = Trial("a_b-1.0", wheel, wheel, {1: same(1.0)})
    page = write_page(Outcome("2.21.0", "9.0", changed, ["seed"], [trial], against, MACHINE))
    assert "**TensorFlow 9.0 is not ready to be adopted: 2 points stand against it.**" in page
    assert "not read: `seed`" in page
    assert "1 are new and 1 are gone, of these for CPUs: `xla_cpu_old`" in page
    assert "a\\_b-1.0" in page


@pytest.mark.parametrize(
    "text",
    ["tensorflow", "jax==1.0", "tensorflow>=2", "tensorflow==2.*", "a b", "tensorflow==1,==2"],
)
def test_a_requirement_that_is_no_version_of_tensorflow_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="tensorflow==2"):
        parse_candidate(text)


def test_the_version_in_use_is_no_candidate() -> None:
    with pytest.raises(UsageError, match="used already"):
        parse_candidate(f"tensorflow=={TENSORFLOW_VERSION}")
    assert parse_candidate("tensorflow == 2.99.0rc1") == "2.99.0rc1"


def test_the_pinned_version_is_adopted() -> None:
    assert PINNED_TENSORFLOW in ADOPTED
