"""Downloads objects of S3 and of Google Cloud Storage, by fsspec, with the credentials that their own tools use."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from ... import extras
from ...errors import SourceError
from ...spec.sources.addresses import OBJECT_SCHEMES
from ...util.files import CHUNK
from ...util.words import size_text, time_text
from ..download import Meter, Place, Transfer, require_content, require_size
from ..rules import MAX_MODEL_BYTES

if TYPE_CHECKING:
    from typing import BinaryIO

_DENIED = ("NoCredentials", "Forbidden", "Permission", "Unauthorized", "HttpError")


def is_object(url: str) -> bool:
    """Whether a URL is of an object store."""
    return urlsplit(url).scheme in OBJECT_SCHEMES


def download_object(url: str, sha256: str | None, target: Path, transfer: Transfer) -> None:
    """Downloads an object to the file `target` and verifies it, unless it has no pin yet.

    Raises:
        SourceError: It cannot be read, or its SHA-256 is another.
        EnvironmentProblemError: The packages for this object store are not installed.
    """
    scheme = urlsplit(url).scheme
    extras.require(scheme, f"a model at {scheme}://")
    import fsspec

    # Public buckets are read without credentials: first with those that there are, if any.
    failure = _copy(fsspec, url, target, transfer, {})
    if failure is not None and any(word in type(failure).__name__ for word in _DENIED):
        anonymous = {"anon": True} if scheme == "s3" else {"token": "anon"}
        again = _copy(fsspec, url, target, transfer, anonymous)
        failure = again and failure
    if failure is not None:
        raise SourceError(f"cannot download {url}: {_explain(failure)}") from None
    require_content(Place(url), sha256, target)


def _copy(
    fsspec: Any, url: str, target: Path, transfer: Transfer, options: dict[str, Any]
) -> Exception | None:
    """Copies an object; what went wrong there, of any of the libraries' many kinds."""
    deadline = time.monotonic() + transfer.timeout
    try:
        # One of before may have other credentials, and knows what was there then.
        files, path = fsspec.core.url_to_fs(url, skip_instance_cache=True, **options)
        size = int(files.info(path)["size"])
    except Exception as error:  # noqa: BLE001 - each library has its own
        return error
    require_size(url, size)
    meter = Meter(transfer.tell)
    meter.begin(0, size)
    try:
        opened = cast("BinaryIO", files.open(path, "rb", block_size=4 * CHUNK))
    except Exception as error:  # noqa: BLE001
        return error
    with opened, target.open("wb") as file:
        while True:
            try:
                chunk = opened.read(CHUNK)
            except Exception as error:  # noqa: BLE001
                return error
            if not chunk:
                return None
            file.write(chunk)  # an error of the disk is not one of the store
            meter.add(len(chunk))
            if file.tell() > MAX_MODEL_BYTES or time.monotonic() > deadline:
                raise SourceError(
                    f"cannot download {url}: it is longer than {size_text(MAX_MODEL_BYTES)} or takes longer than "
                    f"{time_text(transfer.timeout)}; check the network, then run again"
                )


def _explain(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such object; correct the address"
    name = type(error).__name__
    if isinstance(error, PermissionError) or any(word in name for word in _DENIED):
        return "access was refused; provide credentials, as for the tools of this object store"
    if any(word in name for word in ("Endpoint", "Connect", "Timeout")):
        return "the host cannot be reached; check the network, then run again"
    return f"the request failed ({name}); check the address and the network"
