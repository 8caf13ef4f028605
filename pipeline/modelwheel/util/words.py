"""Text for messages: short lists, counts, shapes, suggestions for misspelt words."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence

from .text import one_line

FIRST_FEW = 3
"""Names that a message lists before it counts the rest."""


def first_few(names: Iterable[str], limit: int = FIRST_FEW) -> str:
    """The first names and the number of those left out.

    >>> first_few(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    names = list(names)
    text = ", ".join(map(one_line, names[:limit]))
    return f"{text} and {len(names) - limit} more" if len(names) > limit else text


def natural_key(text: str) -> tuple[list[str | tuple[int, str]], str]:
    """A sort key of texts in which numbers count as numbers.

    >>> sorted(["arg10", "arg2", "arg"], key=natural_key)
    ['arg', 'arg2', 'arg10']
    """
    # Every second part is a number, so that parts of the same kind are compared. Of two numbers without
    # leading zeros the longer one is larger; `int` refuses very long ones.
    parts = re.split(r"0*([0-9]+)", text)
    return [(len(part), part) if n % 2 else part for n, part in enumerate(parts)], text


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun in singular or plural.

    >>> count(1, "wheel"), count(0, "wheel"), count(2, "entry", "entries")
    ('1 wheel', '0 wheels', '2 entries')
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def size_text(size: float) -> str:
    """A number of bytes as people read it, with three digits.

    >>> size_text(512), size_text(7130), size_text(34_200_000), size_text(4 << 30)
    ('512 bytes', '7.13 kB', '34.2 MB', '4.29 GB')
    >>> size_text(999_600), size_text(1000), size_text(1)
    ('1 MB', '1 kB', '1 byte')
    """
    if size < 1000:
        return count(round(size), "byte")
    return _with_unit(size / 1000, (("kB", 1000), ("MB", 1000), ("GB", None)))


def time_text(seconds: float) -> str:
    """A time as people read it, with three digits.

    >>> time_text(85e-9), time_text(6.2e-7), time_text(3.97e-3), time_text(2.5), time_text(0)
    ('85 ns', '620 ns', '3.97 ms', '2.5 s', '0 ns')
    >>> time_text(0.5), time_text(45.04), time_text(168), time_text(3600), time_text(8000)
    ('0.5 s', '45 s', '2 min 48 s', '60 min', '2 h 13 min')
    """
    if round(seconds) >= 7200:
        return _two(round(seconds / 60), 60, "h", "min")
    if round(seconds) >= 60:
        return _two(round(seconds), 60, "min", "s")
    if seconds >= 0.1:
        return f"{_three_digits(seconds)} s"
    return _with_unit(seconds * 1e9, (("ns", 1000), ("µs", 1000), ("ms", None)))


def rough_time(seconds: float) -> str:
    """An estimate of a time, rounded up: nobody knows it to the second.

    >>> rough_time(3), rough_time(31), rough_time(61), rough_time(3500), rough_time(7300)
    ('10 s', '40 s', '2 min', '59 min', '2 h 10 min')
    """
    if seconds <= 50:
        return f"{max(math.ceil(seconds / 10), 1) * 10} s"
    if seconds <= 59 * 60:
        return f"{math.ceil(seconds / 60)} min"
    return _two(math.ceil(seconds / 600) * 10, 60, "h", "min")


def _two(number: int, base: int, large: str, small: str) -> str:
    rest = f" {number % base} {small}" if number % base else ""
    return f"{number // base} {large}{rest}"


def _with_unit(value: float, units: Sequence[tuple[str, int | None]]) -> str:
    """A value with the unit in which it is below the next one, after it is rounded."""
    for unit, next_one in units:
        text = _three_digits(value)
        if next_one is None or float(text) < next_one:
            return f"{text} {unit}"
        value /= next_one
    raise AssertionError("the last unit has none above it")


def _three_digits(value: float) -> str:
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """A part as people read it: three digits below 1000 %, no power of ten.

    >>> percent(0.012), percent(0.0000012), percent(0.98765), percent(340.2)
    ('1.2 %', 'less than 0.01 %', '98.8 %', '34020 %')
    """
    hundredths = 100 * share
    if hundredths < 0.01:
        return "less than 0.01 %"
    if hundredths < 1:
        return f"{hundredths:.2g} %"
    return f"{hundredths:.1f} %" if hundredths < 100 else f"{hundredths:.0f} %"


def shape_text(
    shape: Sequence[int | None], per_row: int = 1, extents: Sequence[tuple[int, int]] = ()
) -> str:
    """A shape as people write it.

    Args:
        shape: Extents; None for the batch axis, of which there is one at most.
        per_row: The extent of the batch axis for each row of the batch.
        extents: If the shape follows a length, each axis as (fixed, per length).

    >>> shape_text((None, 8, 8)), shape_text((None, 2), per_row=3)
    ('[batch, 8, 8]', '[batch * 3, 2]')
    >>> shape_text((100, None, 8)), shape_text((9, None), extents=((0, 1), (1, 0)))
    ('[100, batch, 8]', '[length, batch]')
    >>> shape_text((None, 9, 2), per_row=4, extents=((0, 1), (1, 2), (2, 0)))
    '[batch * length, 2 * length + 1, 2]'
    """
    axes = [str(extent) for extent in shape]
    for axis, (fixed, per_length) in enumerate(extents):
        if per_length:
            axes[axis] = "length" if per_length == 1 else f"{per_length} * length"
            axes[axis] += f" + {fixed}" if fixed else ""
    if None in shape:
        batch = shape.index(None)
        own = axes[batch] if extents and extents[batch][1] else str(per_row)
        own = f"({own})" if " + " in own else own
        axes[batch] = "batch" if own == "1" else f"batch * {own}"
    return f"[{', '.join(axes)}]"


def shorten(text: str, limit: int = 60) -> str:
    """The text in one line, cut to `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def suggest(word: str, known: Iterable[str], otherwise: str = "choose from") -> str:
    """`did you mean 'x'?` for the nearest known word, or the list of known words.

    It continues a sentence: `unknown level 'avx3'; did you mean 'avx2'?`

    >>> suggest("linux-riscv", ["macos-arm64", "windows-x86_64"])
    'choose from macos-arm64, windows-x86_64'
    """
    known = list(known)
    nearest = nearest_word(word, known)
    if nearest is not None:
        return f"did you mean '{one_line(nearest)}'?"
    return f"{otherwise} {', '.join(map(one_line, known))}"


def suggest_few(word: str, known: Iterable[str]) -> str:
    """As `suggest`, but of very many known words only the first few are listed.

    >>> suggest_few("x", ["layer_1", "layer_2", "layer_3", "layer_4"])
    'there are layer_1, layer_2, layer_3 and 1 more'
    """
    known = list(known)
    nearest = nearest_word(word, known)
    if nearest is not None:
        return f"did you mean '{one_line(nearest)}'?"
    return f"there are {first_few(known)}" if known else "there are none"


def nearest_word(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` probably stands for, or None if none is similar."""
    by_folded = {_fold(entry): entry for entry in known}
    matches = difflib.get_close_matches(_fold(word), by_folded, n=1)
    return by_folded[matches[0]] if matches else None


def _fold(word: str) -> str:
    return word.lower().replace("-", "_")


def as_ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as ranges: `1-5, 7, 15-17`."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(str(g[0]) if len(g) == 1 else f"{g[0]}-{g[-1]}" for g in groups)
