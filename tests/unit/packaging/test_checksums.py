"""`SHA256SUMS`: what is written is read again, and anything else is refused with its line."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from modelwheel.packaging.checksums import CHECKSUMS, parse_checksums, write_checksums


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "a directory").mkdir()
    (tmp_path / "a directory" / "two  spaces").write_bytes(b"2")
    (tmp_path / "one").write_bytes(b"1")
    write_checksums(tmp_path)
    assert parse_checksums((tmp_path / CHECKSUMS).read_bytes()) == {
        "a directory/two  spaces": sha256(b"2").hexdigest(),
        "one": sha256(b"1").hexdigest(),
    }


@pytest.mark.parametrize(
    "line", ["", "one", f"{'0' * 63}  one", f"{'0' * 64}  ", f"{'0' * 64} one"]
)
def test_a_line_that_is_not_a_hash_and_a_name(line: str) -> None:
    text = f"{'0' * 64}  zero\n{line}\n"
    with pytest.raises(ValueError, match=f"line 2 of {CHECKSUMS} is not a SHA-256 hash"):
        parse_checksums(text.encode())
