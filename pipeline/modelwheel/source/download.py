"""Downloads a file and verifies its SHA-256."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ..errors import SourceError
from ..util.files import CHUNK, digest_file
from ..util.names import UnsafePathError
from ..util.trees import open_plain
from ..util.urls import redact
from ..util.words import size_text, time_text
from .rules import MAX_MODEL_BYTES

if TYPE_CHECKING:
    import requests

ATTEMPTS = 4
FIRST_WAIT = 1.0
"""Seconds before the second attempt."""

# Seconds without a byte from the host, and the longest wait between attempts.
_READ_TIMEOUT = 60.0

_HINTS = {
    401: "provide credentials, for example in ~/.netrc",
    403: "provide credentials that may read it, for example in ~/.netrc",
    404: "correct the URL",
    410: "correct the URL",
}
"""By HTTP status."""


def download(url: str, sha256: str, target: Path, timeout: float) -> None:
    """Downloads `url` (https, http or file) to the file `target` and verifies it.

    Raises:
        SourceError: The host cannot be reached or refuses, or the SHA-256 is another.
    """
    with target.open("wb") as file:
        if _is_local(url):
            _copy_local(url, file)
        else:
            _download(url, file, timeout)
    found = digest_file(target).sha256
    if found != sha256 and _is_local(url):
        # Without its hash: a spec may name any file of the machine, and its author need not be
        # allowed to read it.
        raise SourceError(
            f"{redact(url)} does not have the SHA-256 {sha256}: the file changed or the pin is wrong; "
            "`sha256sum FILE` prints what it has"
        )
    if found != sha256:
        raise SourceError(
            f"{redact(url)}: expected SHA-256 {sha256}, got {found}: the data changed, the "
            "download was damaged, or the pin is wrong"
        )


def _is_local(url: str) -> bool:
    return urlsplit(url).scheme == "file"


def _copy_local(url: str, target: BinaryIO) -> None:
    path = Path(url2pathname(urlsplit(url).path))
    try:
        with open_plain(path) as source:
            if os.fstat(source.fileno()).st_size > MAX_MODEL_BYTES:
                raise SourceError(f"{redact(url)} is larger than {size_text(MAX_MODEL_BYTES)}")
            shutil.copyfileobj(source, target, CHUNK)
    except UnsafePathError:
        raise SourceError(f"{path} is not a regular file; correct the URL") from None
    except OSError as error:
        if error.filename is None:
            raise  # not the source but the disk
        raise SourceError(f"cannot read {path}: {error.strerror}; correct the URL") from error


def _download(url: str, target: BinaryIO, timeout: float) -> None:
    import requests

    from ..util.http import AnswerError, Patience, Reader, chunks, explain

    # For all attempts together.
    deadline = time.monotonic() + timeout

    def write(response: requests.Response) -> None:
        if not response.ok:
            hint = _HINTS.get(response.status_code, "try again later")
            raise SourceError(
                f"cannot download {redact(url)}: HTTP status {response.status_code}; {hint}"
            )
        target.seek(0)  # a connection that broke on the way may have left a beginning
        target.truncate()
        target.writelines(chunks(response, MAX_MODEL_BYTES, max(0.0, deadline - time.monotonic())))

    patience = Patience(ATTEMPTS, FIRST_WAIT, longest_wait=_READ_TIMEOUT)
    try:
        with Reader(replace(patience, timeout=min(timeout, _READ_TIMEOUT))) as reader:
            reader.read(url, write)
    except AnswerError as error:
        raise SourceError(
            f"cannot download {redact(url)}: {error} (at most {size_text(MAX_MODEL_BYTES)} within "
            f"{time_text(timeout)}); check the URL, the network and the host, then run again"
        ) from None
    except requests.RequestException as error:
        # The messages of requests repeat the URL with its credentials.
        raise SourceError(
            f"cannot download {redact(url)}: {explain(error)}; check the URL and the network, "
            "then run again"
        ) from None
