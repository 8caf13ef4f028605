"""Fetches the files that Git LFS keeps in place of git: what git has is a pointer, whose size and SHA-256 are a pin.

The protocol: https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md and docs/spec.md there.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlsplit

from ...errors import SourceError
from ...util.files import FileDigest, digest_file
from ...util.records import parse_json
from ...util.text import one_line
from ...util.trees import open_plain
from ...util.urls import redact
from ...util.words import shorten, size_text
from ..download import Place, Transfer, download, explained, open_reader
from ..rules import MAX_MODEL_BYTES

if TYPE_CHECKING:
    import requests

    from ...util.http import Reader

# Pointer files are smaller than 1024 bytes and begin with their version (docs/spec.md).
_START = b"version https://git-lfs.github.com/spec/"
_MAX_POINTER = 1024
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:[a-z0-9.-]+ [^\n]*\n)*?"
    rb"oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,19})\n(?:[a-z0-9.-]+ [^\n]*\n)*"
)
_BATCH = 100
"""Objects of one request; the number that git-lfs asks for."""
_MAX_ANSWER = 16 << 20
_SECONDS = 60.0
_TYPE = "application/vnd.git-lfs+json"

_ANSWERS = {
    401: "access was refused; set up a credential helper of git that may read it, or ~/.netrc",
    403: "access was refused; set up a credential helper of git that may read it, or ~/.netrc",
    404: "there is no Git LFS server for this repository; correct lfs.url in its .lfsconfig",
    429: "too many requests; try again later",
    507: "its storage is full; ask who runs it",
    509: "its quota of bandwidth is used up; ask the owner of the repository for more, or try again later",
}
"""By HTTP status: docs/api/batch.md, "Response Errors"."""
_OBJECTS = {
    403: "access was refused; set up a credential helper of git that may read it",
    404: "the server does not have it; push it from a clone that has: git lfs push --all origin",
    410: "the owner of the repository removed it; pin a commit without it",
    422: "the server refuses the object of this pointer; write the pointer again: git lfs track",
}


@dataclass(frozen=True)
class Server:
    """Where the batch API of a repository is."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """What the repository's host gave for it over ssh."""


@dataclass(frozen=True)
class Origin:
    """Where the objects of a repository are."""

    shown: str
    """The repository in messages."""
    find_stores: Callable[[], Sequence[Path]]
    """Directories of git on this machine that may have objects."""
    find_server: Callable[[], Server]
    """Raises SourceError if there is none."""
    credentials: Callable[[str], tuple[str, str] | None]
    """User and password for a URL, from git's credential helpers."""


def read_pointer(file: Path) -> FileDigest | None:
    """The size and hash of the file that a pointer stands for; None if the file is not a pointer.

    Raises:
        SourceError: It begins like one, and is not one that is read.
    """
    with file.open("rb") as opened:
        return parse_pointer(opened, file.name)


def parse_pointer(file: BinaryIO, name: str) -> FileDigest | None:
    """As `read_pointer`, of a file that is open at its beginning."""
    content = file.read(_MAX_POINTER)
    if len(content) == _MAX_POINTER or not content.startswith(_START):
        return None
    match = _POINTER.fullmatch(content)
    # Extensions of a pointer name programs that would have to run.
    if match is None or b"\next-" in content:
        raise SourceError(
            f"{name} is a pointer of Git LFS that is damaged or of another version; write it again: "
            "git lfs track"
        )
    return FileDigest(match[1].decode(), int(match[2]))


def fill(
    directory: Path,
    names: Sequence[str],
    origin: Origin,
    cache: Path,
    transfer: Transfer,
) -> None:
    """Puts the objects in the place of their pointers.

    Args:
        directory: Has the files.
        names: Of all files in it.
        origin: Where the objects are.
        cache: A directory for objects; what is there is not fetched again.
        transfer: How.

    Raises:
        SourceError: One cannot be fetched, or they are larger than a model may be.
    """
    pointers = {name: digest for name in names if (digest := read_pointer(directory / name))}
    wanted = {pointer.sha256: (name, pointer.size) for name, pointer in pointers.items()}
    total = sum(pointer.size for pointer in pointers.values())
    if total > MAX_MODEL_BYTES:
        raise SourceError(
            f"{origin.shown} has {size_text(total)} in Git LFS there, and a model has at most "
            f"{size_text(MAX_MODEL_BYTES)}"
        )
    if not pointers:
        return
    cache.mkdir(parents=True, exist_ok=True)
    stores = origin.find_stores()
    missing = {
        sha256: about
        for sha256, about in wanted.items()
        if not (cache / sha256).exists() and not _take_local(sha256, stores, cache)
    }
    if missing:
        _fetch(missing, origin, cache, transfer)
    for name, pointer in pointers.items():
        (directory / name).unlink()
        shutil.copyfile(cache / pointer.sha256, directory / name)


def _take_local(sha256: str, stores: Sequence[Path], cache: Path) -> bool:
    """Copies an object that a repository on this machine has."""
    for store in stores:
        place = store / "lfs" / "objects" / sha256[:2] / sha256[2:4] / sha256
        part = cache / f"{sha256}.part"
        try:
            with open_plain(place) as source, part.open("wb") as copy:
                shutil.copyfileobj(source, copy)
        except (OSError, ValueError):  # not there, or not a regular file
            continue
        if digest_file(part).sha256 == sha256:
            part.rename(cache / sha256)
            return True
    return False


def _fetch(
    missing: Mapping[str, tuple[str, int]], origin: Origin, cache: Path, transfer: Transfer
) -> None:
    server = origin.find_server()
    with open_reader(transfer.timeout) as reader:
        api = _Api(server, origin, reader, transfer.timeout)
        oids = sorted(missing)
        for begin in range(0, len(oids), _BATCH):
            part = {oid: missing[oid] for oid in oids[begin : begin + _BATCH]}
            for oid, place in api.locate(part):
                download(place, oid, cache / f"{oid}.part", transfer, reader)
                (cache / f"{oid}.part").rename(cache / oid)


class _Api:
    """The batch API of one server."""

    def __init__(self, server: Server, origin: Origin, reader: Reader, timeout: float) -> None:
        self._server, self._origin = server, origin
        self._reader, self._timeout = reader, timeout
        self._auth: tuple[str, str] | None = None
        self._shown = f"the Git LFS server {redact(server.url)}"

    def locate(self, wanted: Mapping[str, tuple[str, int]]) -> Iterator[tuple[str, Place]]:
        """Where each of the objects is.

        Raises:
            SourceError: The server does not say it of one.
        """
        answer = self._ask([{"oid": oid, "size": size} for oid, (_, size) in wanted.items()])
        try:
            if answer.get("transfer", "basic") != "basic":
                raise SourceError(f"{self._shown} offers no basic transfer; ask who runs it")
            objects = {str(item["oid"]): item for item in answer["objects"]}
        except (AttributeError, LookupError, TypeError):
            raise SourceError(f"{self._shown} did not answer as one; correct lfs.url") from None
        for oid, (name, size) in wanted.items():
            if oid not in objects:
                raise SourceError(
                    f"{self._shown} was asked for {name!r} and answered for another object; ask who runs it"
                )
            yield oid, self._place(objects[oid], name, size)

    def _place(self, answer: Mapping[str, Any], name: str, size: int) -> Place:
        shown = f"{name!r} of {self._origin.shown} in Git LFS"
        error = answer.get("error")
        if isinstance(error, Mapping):
            code = error.get("code")
            reason = _OBJECTS.get(code if isinstance(code, int) else 0, _said(error))
            raise SourceError(f"cannot fetch {shown} from {redact(self._server.url)}: {reason}")
        try:
            action = answer["actions"]["download"]
            href = str(action["href"])
            headers = {str(key): str(value) for key, value in action.get("header", {}).items()}
        except (AttributeError, LookupError, TypeError):
            raise SourceError(f"{self._shown} does not say where {name!r} is") from None
        own, other = urlsplit(self._server.url), urlsplit(href)
        # Never to a file of this machine, and never without TLS where the server has it.
        if other.scheme not in ("https", own.scheme):
            raise SourceError(f"{self._shown} sends to an address that is not https for {name!r}")
        same = (own.scheme, own.netloc) == (other.scheme, other.netloc)
        if answer.get("size", size) != size:
            raise SourceError(f"{self._shown} offers {name!r} in another size than its pointer has")
        auth = self._auth if same and "authorization" not in map(str.lower, headers) else None
        return Place(href, shown, headers, auth, size=size, hints={**_OBJECTS, 401: _OBJECTS[403]})

    def _ask(self, objects: Sequence[Mapping[str, Any]]) -> Any:
        status, answer = self._post(objects)
        if status == 401 and self._auth is None and not self._server.headers:
            self._auth = self._origin.credentials(self._server.url)
            if self._auth is not None:
                status, answer = self._post(objects)
        if not 200 <= status < 300:
            message = _said(answer)
            # GitHub answers 403 for a quota, and says so.
            about_quota = re.search(r"quota|budget|bandwidth", message, re.IGNORECASE)
            why = _ANSWERS.get(509 if about_quota else status, "try again later")
            message = f" ({message})" if message else ""
            raise SourceError(
                f"cannot fetch {self._origin.shown}: {self._shown} answered {status}{message}: {why}"
            )
        return answer

    def _post(self, objects: Sequence[Mapping[str, Any]]) -> tuple[int, Any]:
        from ...util.http import no_auth, read_body

        def parse(response: requests.Response) -> tuple[int, Any]:
            content = read_body(response, _MAX_ANSWER, min(self._timeout, _SECONDS))
            try:
                return response.status_code, parse_json(content)
            except ValueError:
                return response.status_code, None

        asked = {
            "operation": "download",
            "transfers": ["basic"],
            "objects": objects,
            "hash_algo": "sha256",
        }
        headers = {"Accept": _TYPE, "Content-Type": _TYPE, **self._server.headers}
        with explained(self._shown, self._timeout):
            return self._reader.read(
                f"{self._server.url.rstrip('/')}/objects/batch",
                parse,
                headers={**headers, "Accept-Encoding": "gzip"},
                auth=no_auth if self._server.headers else self._auth,
                body=json.dumps(asked).encode(),
            )


def _said(answer: Any) -> str:
    message = answer.get("message") if isinstance(answer, Mapping) else None
    return shorten(one_line(redact(str(message))), 200) if message else ""
