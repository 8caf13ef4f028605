"""Downloads a file and verifies its SHA-256."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
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
from .kept import Kept
from .rules import MAX_MODEL_BYTES

if TYPE_CHECKING:
    import requests

    from ..util.http import Reader

ATTEMPTS = 7
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

Tell = Callable[[str], None]
"""Receives what is being done, for a display."""


def tell_nobody(_: str) -> None:
    """Shows nothing."""


@dataclass(frozen=True)
class Transfer:
    """How files are transferred."""

    timeout: float
    """Seconds that each may take, with all attempts."""
    tell: Tell = tell_nobody
    """Receives how much has arrived."""
    kept: Kept | None = None
    """Keeps what has arrived if it is stopped."""


@dataclass(frozen=True)
class Place:
    """Where a file is, and what is known of it before it is downloaded."""

    url: str
    """https, http or file."""
    shown: str = ""
    """In messages; by default the URL."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """May hold credentials, which reach no other host."""
    auth: tuple[str, str] | None = None
    size: int | None = None
    """Bytes, as its host says."""
    md5: str | None = None
    """As its host says. It decides nothing, but says whether the download or the pin is wrong."""
    hints: Mapping[int, str] = field(default_factory=dict)
    """What to do, by HTTP status."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.shown or redact(self.url)


@contextmanager
def open_reader(
    timeout: float, verify: str | None = None, proxies: Mapping[str, str] | None = None
) -> Iterator[Reader]:
    """A reader over HTTP, with the patience of downloads."""
    from ..util.http import Patience, Reader

    patience = Patience(ATTEMPTS, FIRST_WAIT, longest_wait=_READ_TIMEOUT)
    patience = replace(patience, timeout=min(timeout, _READ_TIMEOUT))
    with Reader(patience, verify=verify, proxies=proxies) as reader:
        yield reader


def download(
    place: Place,
    sha256: str | None,
    target: Path,
    transfer: Transfer,
    reader: Reader | None = None,
) -> None:
    """Downloads a file to the file `target` and verifies it, unless it has no pin yet.

    Args:
        place: Where it is.
        sha256: Its pin.
        target: Where it is written.
        transfer: How.
        reader: Connections to use.

    Raises:
        SourceError: The host cannot be reached or refuses, or the SHA-256 is another.
    """
    require_size(place.name, place.size)
    if is_local(place.url):
        with target.open("wb") as file:
            _copy_local(place.url, file)
    else:
        with open_reader(transfer.timeout) if reader is None else nullcontext(reader) as opened:
            _download(opened, place, sha256, target, transfer)
    require_content(place, sha256, target)


def require_size(shown: str, size: int | None) -> None:
    """Refuses what its host says is larger than a model may be.

    Raises:
        SourceError: It is.
    """
    if size is not None and size > MAX_MODEL_BYTES:
        raise SourceError(
            f"{shown} has {size_text(size)}, and a model has at most {size_text(MAX_MODEL_BYTES)}"
        )


def require_content(place: Place, sha256: str | None, file: Path) -> None:
    """Refuses a file that does not have the pinned hash.

    Raises:
        SourceError: It has another.
    """
    if sha256 is None:
        return
    digest = digest_file(file).sha256
    if digest == sha256:
        return
    if is_local(place.url):
        # Without its hash: a spec may name any file of the machine, and its author need not be
        # allowed to read it.
        raise SourceError(
            f"{place.name} does not have the SHA-256 {sha256}: the file changed or the pin is wrong; "
            "`sha256sum FILE` prints what it has",
            code="MW302",
        )
    why = "the data changed, the download was damaged, or the pin is wrong"
    if place.md5 is not None:
        with file.open("rb") as opened:
            same = _md5(opened) == place.md5
        why = (
            "the file is what its host lists, so the pin is wrong"
            if same
            else "the download was damaged (its host lists another checksum, too); run again"
        )
    raise SourceError(f"{place.name}: expected SHA-256 {sha256}, got {digest}: {why}", code="MW302")


def _md5(file: BinaryIO) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def is_local(url: str) -> bool:
    """Whether a URL is of a file on this machine."""
    return urlsplit(url).scheme == "file"


def _copy_local(url: str, target: BinaryIO) -> None:
    path = Path(url2pathname(urlsplit(url).path))
    try:
        with open_plain(path) as source:
            if os.fstat(source.fileno()).st_size > MAX_MODEL_BYTES:
                raise SourceError(
                    f"{redact(url)} is larger than {size_text(MAX_MODEL_BYTES)}", code="MW311"
                )
            shutil.copyfileobj(source, target, CHUNK)
    except UnsafePathError:
        raise SourceError(f"{path} is not a regular file; correct the URL", code="MW309") from None
    except OSError as error:
        if error.filename is None:
            raise  # not the source but the disk
        raise SourceError(
            f"cannot read {path}: {error.strerror}; correct the URL", code="MW301"
        ) from error


class Meter:
    """Tells now and then how much of a file has arrived, and how fast."""

    _INTERVAL = 0.25

    def __init__(self, tell: Tell, total: int | None = None) -> None:
        self._tell, self._total = tell, total
        self._size = self._from = 0
        self._start = self._told = time.monotonic()

    def begin(self, size: int, total: int | None) -> None:
        """Starts at a size: some bytes may be there."""
        self._size = self._from = size
        self._total = total
        self._start = time.monotonic()

    def add(self, size: int) -> None:
        """Counts bytes."""
        self._size += size
        now = time.monotonic()
        if now - self._told >= self._INTERVAL:
            self._told = now
            speed = (self._size - self._from) / max(now - self._start, 1e-6)
            total = f" of {size_text(self._total)}" if self._total else ""
            self._tell(f"{size_text(self._size)}{total}, {size_text(speed)}/s")


class _Resumable:
    """A file that is written by several responses: each goes on where the one before broke off."""

    def __init__(
        self, place: Place, target: BinaryIO, deadline: float, meter: Meter, validator: str
    ) -> None:
        self._place, self._target, self._deadline = place, target, deadline
        self._meter = meter
        self.validator = validator
        """What says that the host still has the file of which this is the beginning; empty if nothing does."""

    def headers(self) -> Mapping[str, str]:
        """Of the next request."""
        from ..util.http import UNCHANGED

        size = self._target.seek(0, os.SEEK_END)
        headers = {**UNCHANGED, **self._place.headers}
        if size and self.validator:
            # Without the validator's match, the host sends the whole file (RFC 9110, section 13.1.5).
            headers |= {"Range": f"bytes={size}-", "If-Range": self.validator}
        return headers

    def write(self, response: requests.Response) -> None:
        """Adds the body of a response.

        Raises:
            SourceError: The host refused.
            AnswerError: It is too long or takes too long.
        """
        from ..util.http import AnswerError, chunks

        size = self._target.seek(0, os.SEEK_END)
        begin = f"bytes {size}-"
        goes_on = response.status_code == 206 and (
            response.headers.get("Content-Range", "").startswith(begin)
        )
        if not goes_on and response.status_code in (206, 416):
            self._forget()
            raise _again()
        if not response.ok:
            self._refuse(response.status_code)
        if not goes_on:
            self._forget()
            size = 0
        self.validator = _validator(response.headers)
        length = response.headers.get("Content-Length", "")
        total = size + int(length) if length.isdecimal() else None
        if total is not None and total > MAX_MODEL_BYTES:
            raise AnswerError(f"the answer is longer than {size_text(MAX_MODEL_BYTES)}")
        self._meter.begin(size, total or self._place.size)
        seconds = max(0.0, self._deadline - time.monotonic())
        for chunk in chunks(response, MAX_MODEL_BYTES - size, seconds):
            self._target.write(chunk)
            self._meter.add(len(chunk))

    def _forget(self) -> None:
        self.validator = ""
        self._target.seek(0)
        self._target.truncate()

    def _refuse(self, status: int) -> None:
        hint = self._place.hints.get(status) or _HINTS.get(status, "try again later")
        raise SourceError(
            f"cannot download {self._place.name}: HTTP status {status}; {hint}", code="MW304"
        )


def _again() -> Exception:
    import requests

    return requests.ConnectionError("the host sent another part than was asked for")


def _validator(headers: Mapping[str, str]) -> str:
    """The validator that shows that a file is unchanged; a weak tag does not (RFC 9110, section 8.8.3)."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else ("" if tag else headers.get("Last-Modified", ""))


def _download(
    reader: Reader,
    place: Place,
    sha256: str | None,
    target: Path,
    transfer: Transfer,
) -> None:
    from ..util.http import no_auth

    own = any(name.lower() == "authorization" for name in place.headers)
    kept = transfer.kept
    tag = kept.take(sha256, target) if kept is not None and sha256 is not None else ""
    with target.open("r+b" if tag else "w+b") as opened:
        # For all attempts together.
        meter = Meter(transfer.tell, place.size)
        file = _Resumable(place, opened, time.monotonic() + transfer.timeout, meter, tag)
        try:
            with explained(place.name, transfer.timeout):
                auth = no_auth if own else place.auth
                reader.read(place.url, file.write, headers=file.headers, auth=auth)
        except BaseException:  # also if the user interrupts it
            if kept is not None and sha256 is not None:
                opened.flush()
                kept.keep(sha256, target, file.validator)
            raise


@contextmanager
def explained(shown: str, timeout: float) -> Iterator[None]:
    """Turns what goes wrong while a host is read into a SourceError."""
    import requests

    from ..util.http import AnswerError, explain

    try:
        yield
    except AnswerError as error:
        raise SourceError(
            f"cannot download {shown}: {error} (at most {size_text(MAX_MODEL_BYTES)} within "
            f"{time_text(timeout)}); check the URL, the network and the host, then run again",
            code="MW304",
        ) from None
    except requests.RequestException as error:
        # The messages of requests repeat the URL with its credentials.
        raise SourceError(
            f"cannot download {shown}: {explain(error)}; check the URL and the network, "
            "then run again",
            code="MW304",
        ) from None
