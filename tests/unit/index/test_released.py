"""Files of a release that are fetched to a directory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from modelwheel.index.client import IndexedFile
from modelwheel.index.released import ReleasedFile, _copy

CONTENT = b"the file of a release"


class _Index:
    """An index from which somebody else fetches the same file at the same time."""

    url = "https://example.org/simple/"

    def __init__(self, out: Path, file: ReleasedFile) -> None:
        self._out, self._file = out, file
        self._alone = True

    def download(self, _: IndexedFile, path: Path) -> None:
        with path.open("wb") as file:
            file.write(CONTENT[:5])
            file.flush()
            if self._alone:
                self._alone = False
                _copy(cast("Any", self), self._file, self._out)
            file.write(CONTENT[5:])

    def find_beside(self, *_: object) -> None:
        return None


def test_two_that_fetch_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    file = cast(
        "ReleasedFile",
        SimpleNamespace(
            name="a-1.0-py3-none-any.whl", file=SimpleNamespace(uploaded=None, sha256=None)
        ),
    )
    assert _copy(cast("Any", _Index(tmp_path, file)), file, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {file.name: CONTENT}
