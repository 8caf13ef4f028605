"""Inputs and outputs that have moved since the version before."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.index.order import moved_tensors, warn_of_order
from modelwheel.index.released import open_index
from modelwheel.signature import Signature, Tensor
from tests.support.index_wheels import make_manifest, make_wheel


def signature(inputs: str, outputs: str = "y") -> Signature:
    """Tensors with names of one letter."""

    def tensors(names: str) -> tuple[Tensor, ...]:
        return tuple(
            Tensor(name=n, c_name=n, dtype="float32", shape=(None, 2), leading_per_row=1)
            for n in names
        )

    return Signature(inputs=tensors(inputs), outputs=tensors(outputs))


@pytest.mark.parametrize(
    ("before", "now", "moved"),
    [
        (signature("ab"), signature("ab"), []),
        (signature("ab"), signature("ba"), ["inputs [b, a] were [a, b]"]),
        (signature("ab"), signature("abc"), []),
        (signature("ab"), signature("ac"), []),
        (signature("ab"), signature("cab"), ["inputs [c, a, b] were [a, b]"]),
        (signature("ab"), signature("b"), ["inputs [b] were [a, b]"]),
        (
            signature("ab", "yz"),
            signature("ba", "zy"),
            ["inputs [b, a] were [a, b]", "outputs [z, y] were [y, z]"],
        ),
    ],
)
def test_what_has_moved(before: Signature, now: Signature, moved: list[str]) -> None:
    assert list(moved_tensors(before, now)) == moved


def released(directory: Path, version: str, inputs: str) -> Path:
    manifest = make_manifest("net", version=version)
    return make_wheel(
        directory,
        "net",
        version=version,
        manifest=manifest.model_copy(update={"signature": signature(inputs)}),
    )


def test_a_new_version_is_compared_with_the_newest_before_it(tmp_path: Path) -> None:
    from tests.support.site_server import serve

    old = tmp_path / "simple" / "model-net"
    old.mkdir(parents=True)
    wheels = [released(old, "0.9.0", "ba"), released(old, "0.10.0", "ab")]
    page = "".join(f'<a href="{wheel.name}">{wheel.name}</a>' for wheel in wheels)
    (old / "index.html").write_text(f"<!DOCTYPE html><body>{page}</body>")
    new = tmp_path / "new"
    new.mkdir()
    with serve(tmp_path) as site, open_index(f"{site.url}simple/") as index:
        (warning,) = warn_of_order([released(new, "1.0.0", "ba")], index)
        same = list(warn_of_order([released(new, "1.1.0", "ab")], index))
        oldest = list(warn_of_order([released(new, "0.1.0", "ba")], index))
    assert warning.startswith("model-net 1.0.0: inputs [b, a] were [a, b] in 0.10.0, so calls by")
    assert "interface_order" in warning
    assert (same, oldest) == ([], [])
