"""What replaces marked functions: who is registered, and calls that do not fit an interface."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from modelwheel.errors import EnvironmentProblemError, UnsupportedModelError
from modelwheel.model.check import Expected, check_signature
from modelwheel.model.fusions.interface import (
    Place,
    Tensor,
    check_arguments,
    check_results,
    read_attributes,
)
from modelwheel.model.fusions.registry import (
    GROUP,
    Argument,
    Attribute,
    Fusion,
    Provider,
    chosen,
    registered,
)
from tests.support.inspections import inspect_model

FUSION = Fusion(
    "scaled",
    (
        Argument("x", ("float32", "float64"), ("...", "n")),
        Argument("scale", ("float32", "float64"), ("n",)),
        Argument("mask", ("bool",), ("...", 2), optional=True),
    ),
    build=lambda *_, **__: None,
    attributes={"axis": Attribute(int), "epsilon": Attribute(float, 1e-3)},
)


def _install(directory: Path, name: str, fusion: str) -> None:
    """An installed distribution, as far as its metadata says."""
    info = directory / f"{name}-2.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.1\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{fusion} = never_imported:FUSION\n")


def test_distributions_register_implementations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, "acme", "acme.scaled")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = registered()
    assert found["acme.scaled"] == Provider(
        name="acme.scaled", target="never_imported:FUSION", distribution="acme", version="2.1"
    )
    assert str(found["acme.scaled"]) == "acme 2.1"
    assert str(found["embedding_lookup"]) == "modelwheel"
    assert "never_imported" not in sys.modules
    marked = {"acme.scaled": 1, "embedding_lookup": 2, "nobody's": 3}
    assert [one.name for one in chosen(marked, None, found)] == ["acme.scaled", "embedding_lookup"]
    assert [one.name for one in chosen(marked, ["acme.scaled"], found)] == ["acme.scaled"]
    assert chosen(marked, [], found) == ()


def test_layers_that_nobody_marked_are_replaced_on_request_only() -> None:
    marked, known = {"keras.lstm": 1, "modelwheel.lstm": 1}, registered(())
    assert [one.name for one in chosen(marked, None, known)] == ["modelwheel.lstm"]
    assert [one.name for one in chosen(marked, ["keras.lstm"], known)] == ["keras.lstm"]
    inspection = inspect_model(marked={"serving_default": {"keras.lstm": 1}})
    (note,) = check_signature(inspection, Expected(registered=known))
    assert str(note) == (
        "1 layer marked with 'keras.lstm' could be replaced by modelwheel; "
        "for that, add 'keras.lstm' to compilation.fusions"
    )


def test_patterns_are_replaced_on_request_only() -> None:
    known = registered(())
    assert chosen({}, None, known) == ()
    assert [one.name for one in chosen({}, ["pattern.gelu"], known)] == ["pattern.gelu"]
    expected = Expected(registered=known, fusions=["pattern.gelu"])
    assert list(check_signature(inspect_model(), expected)) == []


def test_other_layers_are_not_mentioned() -> None:
    inspection = inspect_model(marked={"serving_default": {"keras.dense": 2}})
    assert list(check_signature(inspection, Expected(registered=registered(())))) == []


def test_two_implementations_of_a_name_are_refused(tmp_path: Path) -> None:
    _install(tmp_path, "acme", "embedding_lookup")
    entries = importlib.metadata.distributions(path=[str(tmp_path)])
    with pytest.raises(EnvironmentProblemError, match=r"modelwheel and acme 2.1 both implement"):
        registered(entry for one in entries for entry in one.entry_points)


def _floats(*shape: int | None) -> Tensor:
    return Tensor("float32", shape)


@pytest.mark.parametrize(
    "given",
    [
        [_floats(4, 5, 3), _floats(3)],
        [_floats(3), _floats(3)],
        [_floats(None, 3), _floats(None), Tensor("bool", (7, 2))],
        [Tensor("float64", None), Tensor("float64", None)],
    ],
)
def test_calls_that_fit(given: list[Tensor]) -> None:
    check_arguments(FUSION, given, Place("layer"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([_floats(3)], "takes x, scale, mask; here are 1 argument"),
        ([_floats(4, 3), _floats(3), Tensor("bool", (4, 2)), _floats()], "here are 4 arguments"),
        ([Tensor("int32", (4, 3)), _floats(3)], "float32 or float64 for x; here it is int32"),
        ([_floats(), _floats(3)], "takes [..., n] for x; here it is []"),
        ([_floats(4, 3), _floats(1, 3)], "takes [n] for scale; here it is [1, 3]"),
        ([_floats(4, 3), _floats(4)], "here it is [4], where 'n' must be 3"),
        ([_floats(4, 3), _floats(3), Tensor("bool", (4, 3))], "takes [..., 2] for mask"),
        ([_floats(4, 3), _floats(3), Tensor("bool", (5, 2))], "the leading axes must be 4"),
    ],
)
def test_calls_that_do_not_fit(given: list[Tensor], words: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        check_arguments(FUSION, given, Place("scale_rows"))
    assert words in str(caught.value)
    assert "the function 'scale_rows' is marked with 'scaled'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_attributes() -> None:
    assert read_attributes(FUSION, {"axis": 1}, Place("x")) == {"axis": 1, "epsilon": 1e-3}
    assert read_attributes(FUSION, {"axis": -1, "epsilon": 0.5}, Place("x"))["epsilon"] == 0.5
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "needs the attribute axis"),
        ({"axis": 1.0}, "takes an attribute axis of type int"),
        ({"axis": True}, "takes an attribute axis of type int"),
        ({"axis": None}, "takes an attribute axis of type int"),
        ({"axis": 1, "scale": 2}, "has the attributes: axis, epsilon; here is 'scale'"),
    ]
    for given, words in wrong:
        with pytest.raises(UnsupportedModelError, match=words):
            read_attributes(FUSION, given, Place("x"))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "has 0 results; the function has 1"),
        ([Tensor("float64", (4, 3))], "has float64 [4, 3] as result 0; the function has float32"),
        ([_floats(4, 2)], "has float32 [4, 2] as result 0; the function has float32 [?, 3]"),
        ([_floats(3)], "has float32 [3] as result 0"),
    ],
)
def test_results_that_differ(found: list[Tensor], words: str) -> None:
    check_results(FUSION, [_floats(None, 3)], [_floats(4, 3)], Place("x"))
    with pytest.raises(UnsupportedModelError) as caught:
        check_results(FUSION, [_floats(None, 3)], found, Place("x"))
    assert words in str(caught.value)


def test_a_check_says_what_happens_to_marked_functions() -> None:
    inspection = inspect_model(
        marked={"serving_default": {"embedding_lookup": 2, "acme.scaled": 1}}
    )

    def findings(*wanted: str, everything: bool = False) -> list[tuple[str, str]]:
        expected = Expected(fusions=None if everything else wanted, registered=registered(()))
        return [(one.severity, str(one)) for one in check_signature(inspection, expected)]

    assert findings(everything=True) == [
        (
            "note",
            "1 function marked with 'acme.scaled': compiled as they are, because nothing is registered for it",
        ),
        ("note", "2 functions marked with 'embedding_lookup': calls are replaced by modelwheel"),
    ]
    assert "could be replaced by" in findings()[1][1]
    (error, words), *_ = findings("embedding_lokup")
    assert error == "error"
    assert "did you mean 'embedding_lookup'?" in words
    ((_, words), *_) = findings("embedding_matmul")
    assert "no function or composite of the signature is marked with 'embedding_matmul'" in words


def test_a_check_says_what_happens_to_composites() -> None:
    inspection = inspect_model(
        composites={"serving_default": {"acme.scaled@2": 1, "modelwheel.gelu": 2}}
    )

    def findings(*wanted: str, everything: bool = False) -> list[str]:
        expected = Expected(fusions=None if everything else wanted, registered=registered(()))
        return [str(one) for one in check_signature(inspection, expected)]

    unknown = "1 composite 'acme.scaled@2': decomposed, because nothing is registered for it"
    assert findings(everything=True) == [
        unknown,
        "2 composites 'modelwheel.gelu': replaced by modelwheel",
    ]
    assert findings() == [
        unknown,
        (
            "2 composites 'modelwheel.gelu' could be replaced by modelwheel"
            "; for that, add 'modelwheel.gelu' to compilation.fusions"
        ),
    ]
    assert (
        findings("modelwheel.gelu")[1] == "2 composites 'modelwheel.gelu': replaced by modelwheel"
    )


def test_what_is_shipped_can_be_found() -> None:
    for provider in registered(()).values():
        module, _, _ = provider.target.partition(":")
        assert importlib.util.find_spec(module) is not None, provider
