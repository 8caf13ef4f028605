"""File names that are refused."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwheel.util.names import (
    MAX_DEPTH,
    UnsafePathError,
    check_names,
    name_problem,
    safety_problem,
)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "empty"),
        ("/etc/passwd", "absolute"),
        ("C:/x", "absolute"),
        ("../x", "'..'"),
        ("a/../../x", "'..'"),
        ("a\\..\\x", "backslash"),
        ("a\0b", "control character"),
        ("a\nb", "control character"),
        ("a//b", "empty or '.'"),
        ("./a", "empty or '.'"),
        ("a/", "empty or '.'"),
        ("\udcff", "UTF-8"),
        ("a" * 256, "component longer"),
        ("/".join(["abcdefg"] * 129), "longer than 1024"),
        ("/".join("a" * (MAX_DEPTH + 1)), "more than 32 directories deep"),
        ("a?b", "'?', which Windows refuses"),
        ("a/b:stream", "':', which Windows refuses"),
        ('a"b', "which Windows refuses"),
        ("a<b", "which Windows refuses"),
        ("a|b", "which Windows refuses"),
        ("a*", "which Windows refuses"),
        ("a./b", "ends with a dot or a space"),
        ("a/b ", "ends with a dot or a space"),
        ("CON", "'CON', which is a device"),
        ("a/aux.txt", "'aux.txt', which is a device"),
        ("nul .tar.gz/x", "which is a device"),
        ("COM\u00b9", "which is a device"),
        ("lpt1.pb", "which is a device"),
    ],
)
def test_unfit_names(name: str, problem: str) -> None:
    assert problem in (name_problem(name) or "")


@given(st.text(alphabet=st.sampled_from("ab./\\:\0~ \u00e9"), max_size=12))
def test_a_fit_name_stays_below_its_directory(name: str) -> None:
    if name_problem(name) is None:
        joined = posixpath.normpath(posixpath.join("/root/directory", name))
        assert joined == f"/root/directory/{name}"


@pytest.mark.parametrize(
    "names",
    [
        ("a", "a"),
        ("Weights", "weights"),
        ("A/x", "a/y"),
        ("a", "a/b"),
        ("a/b", "a"),
        ("a/b", "A"),
        ("\u00e9", "e\u0301"),
        ("stra\u00dfe", "STRASSE"),
    ],
)
def test_names_that_clash(names: tuple[str, ...]) -> None:
    with pytest.raises(UnsafePathError, match="clash"):
        check_names(names)


def test_names_that_do_not_clash() -> None:
    check_names(["a", "b/a", "b/c/a", "ab"])


@pytest.mark.parametrize(
    "name", ["console", "a/auxiliary.txt", "com", "com10", "a.con", ".b", " a"]
)
def test_names_that_only_look_like_devices(name: str) -> None:
    assert name_problem(name) is None


def test_a_name_that_is_only_not_portable_is_safe() -> None:
    assert safety_problem("a/aux.c") is None
    assert name_problem("a/aux.c") is not None
