"""Numbers of somebody else: each difference from the wheel's interface is one sentence, before it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.errors import VerifyError
from modelwheel.verify.against import prepare_evaluation
from tests.support.described import describe

_MANIFEST = describe()


def _arrays(rows: int = 3) -> dict[str, Any]:
    """One evaluation of the wheel."""
    tensors = [("in", _MANIFEST.signature.inputs), ("out", _MANIFEST.signature.outputs)]
    return {
        f"{kind}/{tensor.name}": np.ones(tensor.shape_at(rows, None), tensor.dtype)
        for kind, several in tensors
        for tensor in several
    }


def _prepare(arrays: dict[str, Any], directory: Path) -> Path:
    path = directory / "theirs.npz"
    np.savez(path, **arrays)
    return prepare_evaluation(path, _MANIFEST, directory)


def _input() -> str:
    return next(key for key in _arrays() if key.startswith("in/"))


def _output() -> str:
    return next(key for key in _arrays() if key.startswith("out/"))


def test_a_file_that_fits_is_copied_in_the_order_of_this_machine(tmp_path: Path) -> None:
    arrays = _arrays()
    big = {name: values.astype(values.dtype.newbyteorder(">")) for name, values in arrays.items()}
    # Wider numbers are closer to the truth.
    big[_output()] = arrays[_output()].astype(">f8")
    with np.load(_prepare(big, tmp_path)) as copy:
        assert set(copy.files) == set(arrays)
        assert all(copy[name].dtype.isnative for name in copy.files)
        np.testing.assert_array_equal(copy[_output()], arrays[_output()])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a.update({"out/other": a.pop(_output())}), "has no array 'out/"),
        (lambda a: a.pop(_input()), "has no array 'in/"),
        (lambda a: a.update({"out/more": a[_output()]}), "'out/more' is neither an input nor"),
        (lambda a: a.update({_input(): a[_input()].astype("f8")}), "has the type float64, but"),
        (lambda a: a.update({_output(): a[_output()].astype("i4")}), "has the type int32, but"),
        (lambda a: a.update({_output(): a[_output()][:-1]}), "for 3 rows the wheel's is"),
        (lambda a: a.update({_output(): a[_output()][..., None]}), "for 3 rows the wheel's is"),
        (lambda a: a.update(_arrays(0)), "it has no rows"),
        (lambda a: a.clear(), "has no array 'in/"),
    ],
)
def test_a_difference_is_a_sentence(change: Any, words: str, tmp_path: Path) -> None:
    arrays = _arrays()
    change(arrays)
    with pytest.raises(VerifyError) as caught:
        _prepare(arrays, tmp_path)
    text = str(caught.value)
    assert text.startswith("--against theirs.npz: ")
    assert words in text
    assert "numpy.savez(FILE, **arrays)" in text
    assert "\n" not in text


def test_a_damaged_file_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "theirs.npz"
    path.write_bytes(b"PK\x03\x04 and nothing")
    with pytest.raises(VerifyError, match=r"theirs\.npz: it is damaged or not an \.npz"):
        prepare_evaluation(path, _MANIFEST, tmp_path)
