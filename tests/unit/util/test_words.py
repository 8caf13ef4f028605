from __future__ import annotations

import doctest

import pytest

from modelwheel.util import words
from modelwheel.util.words import natural_key


def test_the_examples_of_the_docstrings() -> None:
    assert doctest.testmod(words).failed == 0
    assert doctest.testmod(words).attempted >= 5


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b", "c"], "a, b, c"),
        (["a", "b", "c", "d"], "a, b, c and 1 more"),
    ],
)
def test_first_few_counts_only_what_it_leaves_out(names: list[str], text: str) -> None:
    assert words.first_few(iter(names)) == text


def test_first_few_has_a_limit() -> None:
    assert words.first_few("abcdef", limit=5) == "a, b, c, d, e and 1 more"


def test_shorten_keeps_one_line_within_its_limit() -> None:
    assert words.shorten("two\n  lines") == "two lines"
    assert words.shorten("x" * 100, 10) == "xxxxxxx..."


def test_suggest_names_the_nearest_word_or_all() -> None:
    known = ["batch_sizes", "xla_flags"]
    assert words.suggest("Batch-Size", known) == "did you mean 'batch_sizes'?"
    assert words.suggest("zzz", known) == "choose from batch_sizes, xla_flags"
    assert words.suggest("zzz", known, "its keys are:") == "its keys are: batch_sizes, xla_flags"


def test_numbers_in_names_are_sorted_as_numbers() -> None:
    names = ["x", "x1", "x2", "x02", "x10", "x1_9", "x1_10", "9", "10", "x\u0662", "9" * 5000]
    wanted = ["9", "10", "9" * 5000, "x", "x1", "x1_9", "x1_10", "x02", "x2", "x10", "x\u0662"]
    for given in (names, names[::-1], sorted(names)):
        assert sorted(given, key=natural_key) == wanted
