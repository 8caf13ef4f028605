"""What changed between two results, in words."""

from __future__ import annotations

from typing import Any

import pytest

from modelwheel.engine.planning.changes import Reason, compare

_A, _B = "a" * 64, "b" * 64
_MEANINGS: dict[str, dict[str, Any]] = {}


def _texts(before: dict[str, Any], after: dict[str, Any], meanings: Any = None) -> list[str]:
    return [reason.text for reason in compare(before, after, (meanings or {}).get)]


def _xla(*flags: str) -> dict[str, Any]:
    return {"flags": {"xla": list(flags), "tf_xla": []}}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"tensorflow": "2.20.0"}, {"tensorflow": "2.21.0"}, "TensorFlow changed from 2.20.0 to 2.21.0"),
        ({"modelwheel": "1.0"}, {"modelwheel": "1.1"}, "modelwheel changed from 1.0 to 1.1"),
        ({"version": 1}, {"version": 2}, "modelwheel's version of this step changed from 1 to 2"),
        ({"emitter": 1}, {"emitter": 2}, "modelwheel's version of the emitter changed from 1 to 2"),
        (_xla("--xla_cpu_x=1"), _xla("--xla_cpu_x=2"), "flag xla_cpu_x changed from 1 to 2"),
        (_xla(), _xla("--xla_cpu_x=2"), "flag xla_cpu_x was added (2)"),
        (_xla("--xla_cpu_x=1"), _xla(), "flag xla_cpu_x was removed (it was 1)"),
        (_xla("--a=1", "--a=2"), _xla("--a=1", "--a=3"), "flag a changed from 2 to 3"),
        (_xla("--a=1", "--b=2"), _xla("--b=2", "--a=1"), "the order of the flags changed"),
        (
            {"flags": {"x86-64": [["--a=1"], []]}},
            {"flags": {"x86-64": [["--a=1"], ["--b=1"]]}},
            "flag b was added (1)",
        ),
        ({"model": _A}, {"model": _B}, "the model changed"),
        ({"template": _A}, {"template": _B}, "the template changed"),
        ({"spec": _A}, {"spec": _B}, "the spec changed"),
        (
            {"environment": {"cc": "gcc 12", "cxx": "g++ 12"}},
            {"environment": {"cc": "gcc 12", "cxx": "g++ 13"}},
            "the C++ compiler changed from g++ 12 to g++ 13",
        ),
        (
            {"environment": {"cmake": "3.1"}},
            {"environment": {"cmake": "3.2"}},
            "cmake changed from 3.1 to 3.2",
        ),
        ({"graph": _A}, {"graph": _B}, "freeze has another result"),
        ({"seed": 0}, {"seed": 1}, "seed changed from 0 to 1"),
        ({"batch": None}, {"batch": 4}, "batch changed from nothing to 4"),
        ({"shapes": {"x": [1, 2]}}, {"shapes": {"x": [1, 3]}}, "shapes.x changed from [1, 2] to [1, 3]"),
        ({"labels": {"y": f"sha256:{_A}"}}, {"labels": {"y": f"sha256:{_B}"}}, "labels.y changed"),
    ],
)  # fmt: skip
def test_one_change_is_one_sentence(before: Any, after: Any, said: str) -> None:
    assert _texts(before, after) == [said]
    assert _texts(before, before) == []


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        ("model", {"files": {"a/w": _A}}, {"files": {"a/w": _B}}, ["model file a/w changed"]),
        ("tree", {"files": {}}, {"files": {"w": _B}}, ["model file w was added"]),
        ("template", {"files": {"w": _A}}, {"files": {}}, ["template file w was removed"]),
        (
            "template",
            {"files": {}, "facts": {"year": 1}},
            {"files": {}, "facts": {"year": 2}},
            ["year changed from 1 to 2"],
        ),
        (
            "spec",
            {"verify": {"seed": 0, "rows": 1}, "targets": ["x86-64"]},
            {"verify": {"seed": 0, "rows": 2}, "targets": []},
            [
                'spec field targets changed from ["x86-64"] to []',
                "spec field verify.rows changed from 1 to 2",
            ],
        ),
    ],
)
def test_a_hash_is_explained_by_what_it_stands_for(
    name: str, before: Any, after: Any, said: list[str]
) -> None:
    assert _texts({name: _A}, {name: _B}, {_A: before, _B: after}) == said
    # With one side unknown, only that something changed.
    assert len(_texts({name: _A}, {name: _B}, {_B: after})) == 1


def test_kernels_are_explained_by_what_they_are_made_of() -> None:
    kernels = [{"kernels": {"gemm": key, "copy": key}} for key in (_A, _B)]
    made = {_A: {"environment": {"cxx": "g++ 12"}}, _B: {"environment": {"cxx": "g++ 13"}}}
    said = ["the C++ compiler changed from g++ 12 to g++ 13"]
    assert _texts(kernels[0], kernels[1], made) == said
    assert _texts(kernels[0], kernels[1]) == ["a kernel changed"]


def test_results_of_other_steps_come_last() -> None:
    before = {"compiled": [["linux", "x86-64", "b1", {"o": _A}]], "tensorflow": "1"}
    after = {"compiled": [["linux", "x86-64", "b1", {"o": _B}]], "tensorflow": "2"}
    said = ["TensorFlow changed from 1 to 2", "compile has another result"]
    assert _texts(before, after) == said


def test_reasons_without_a_comparison() -> None:
    assert Reason("new", "").text == "never built"
    assert Reason("step", "freeze/b1").text == "freeze/b1 must run first"
    assert Reason("removed", "").text == "its result is not in the store any more"


@pytest.mark.parametrize("wrong", [5, "x", [1], {"xla": 5}, None, {"a": {"b": [{}]}}])
@pytest.mark.parametrize(
    "name", ["flags", "model", "template", "environment", "kernels", "spec", "sources", "compiled"]
)
def test_a_record_may_say_anything(name: str, wrong: Any) -> None:
    right = {
        "flags": {"xla": ["--a=1"], "tf_xla": []},
        "environment": {"cc": "gcc"},
        "kernels": {"gemm": _A},
        "sources": {"version": 1},
    }.get(name, _A)
    # One sentence or several, for any value; also about what they stand for.
    assert all(_texts({name: wrong}, {name: right}, {_A: {"files": {"x": _B}}}))


def test_names_cannot_write_to_the_terminal() -> None:
    assert "\x1b" not in Reason("model", "a\x1b[2Jb", "\x1b[31m", "x\ny").text
    assert "\n" not in Reason("setting", "a\nb", "\x1b[31m", "x\ny").text
