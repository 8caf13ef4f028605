"""Where this process and the programs that it starts put their temporary files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_files_in(directory: Path) -> Iterator[None]:
    """Puts temporary files of this process and its children into a directory of the store.

    Compilers, pip and the build backend write to the system's temporary directory otherwise, and
    would leave their files there if the build was killed. The next process that uses the store
    removes this one.
    """
    names = ("TMPDIR", "TEMP", "TMP")
    before = {name: os.environ.get(name) for name in names}, tempfile.tempdir
    # The variables are for children; this process has a cached answer in tempfile.tempdir.
    os.environ.update(dict.fromkeys(names, str(directory)))
    tempfile.tempdir = str(directory)
    try:
        yield
    finally:
        variables, tempfile.tempdir = before
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
