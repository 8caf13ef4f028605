"""Reads a package index: its simple API (PEP 503, PEP 691) and its files."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import requests

from ..errors import PublishError
from ..util.html_page import MAX_LINKS, read_links
from ..util.http import UNCHANGED, AnswerError, Patience, Reader, chunks, explain, read_body
from ..util.names import MAX_COMPONENT_BYTES
from ..util.records import parse_json
from ..util.urls import redact

if TYPE_CHECKING:
    from typing_extensions import Self

_T = TypeVar("_T")

_GONE = (404, 410)
_MAX_PAGE = 16 << 20
"""Bytes of a project's page; the largest of PyPI have a few millions."""
_MAX_FILE = 4 << 30
"""Bytes of a distribution."""
_PAGE_SECONDS, _FILE_SECONDS = 300.0, 3600.0
"""For one whole answer: a server may send a byte now and then, without end."""
_MAX_COMPANION = 1 << 20
"""Bytes of a file beside a wheel; reports have some kilobytes."""

Credentials = Callable[[], tuple[str, str] | None]


@dataclass(frozen=True)
class IndexedFile:
    """A file that the index offers."""

    url: str
    sha256: str | None
    """As the index states it; None if it does not."""
    size: int | None = None
    """Bytes, likewise."""
    uploaded: datetime | None = None
    """When it was uploaded, likewise (PEP 700)."""


class PackageIndex:
    """The reading side of one index.

    Requests are anonymous. Only if the index answers 401 or 403 are the credentials used, and only
    for `trusted_host`, for which the user configured them.

    Args:
        url: Its simple API.
        trusted_host: Host and port that may receive the credentials.
        credentials: Returns user name and password; None if there are none.
        verify: A bundle of CA certificates instead of the default.
    """

    def __init__(
        self,
        url: str,
        patience: Patience | None = None,
        trusted_host: str = "",
        credentials: Credentials = lambda: None,
        verify: str | None = None,
    ) -> None:
        self.url = url.rstrip("/") + "/"
        self._trusted_host = trusted_host
        self._credentials = credentials
        # An index without a project may redirect to another index; its files may be anywhere.
        self._pages = Reader(patience, verify=verify, within_host=True)
        self._files = Reader(patience, verify=verify)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._pages.close()
        self._files.close()

    def files(self, project: str) -> Mapping[str, IndexedFile] | None:
        """Every file of a project by its name; None if the index has no such project.

        A redirection to another host counts as none: that is how an index passes requests for
        unknown projects on to a larger index.

        Raises:
            PublishError: The index cannot be reached, refuses access, or is not a package index.
        """
        from pypi_simple import ACCEPT_ANY

        url = urljoin(self.url, quote(project) + "/")

        def parse(response: requests.Response) -> Mapping[str, IndexedFile] | None:
            if response.status_code in _GONE or response.is_redirect:
                return None
            _require_success(response, url)
            content = read_body(response, _MAX_PAGE, _PAGE_SECONDS)
            kind = response.headers.get("Content-Type", "text/html")
            return parse_page(content, kind, response.url)

        # A cache would serve the page from before the upload.
        headers = {"Accept": ACCEPT_ANY, "Accept-Encoding": "gzip", "Cache-Control": "no-cache"}
        return self._read(self._pages, url, parse, headers)

    def sha256(self, file: IndexedFile) -> str:
        """Downloads a file and returns the SHA-256 of what the index served.

        Raises:
            PublishError: It cannot be downloaded.
        """

        def digest(response: requests.Response) -> str:
            _require_success(response, file.url)
            return hash_body(response)

        return self._read(self._files, file.url, digest)

    def download(self, file: IndexedFile, path: Path) -> None:
        """Downloads a file.

        Raises:
            PublishError: It cannot be downloaded, or does not have the hash that the index states.
        """

        def write(response: requests.Response) -> str:
            _require_success(response, file.url)
            # `Reader` calls this again if the connection breaks, so file and hash start over.
            with path.open("wb") as copy:
                return hash_body(response, copy)

        served = self._read(self._files, file.url, write)
        if file.sha256 not in (None, served):
            raise PublishError(
                f"{redact(file.url)} has SHA-256 {served}, but the index states {file.sha256}; "
                "report this to the operator of the index",
                code="MW802",
            )

    def find_beside(
        self, file: IndexedFile, suffix: str, limit: int = _MAX_COMPANION
    ) -> bytes | None:
        """A file that the index's own host serves at a file's address with a suffix, or None.

        Args:
            file: A file that this index lists.
            suffix: Follows the file's whole name.
            limit: Bytes; files that are longer or come too slowly are ignored.

        Raises:
            PublishError: The host cannot be reached.
        """
        # Files may be on a host that is not the index's own. It need not keep anything beside them,
        # and what it answers would be taken for measurements.
        if not self._is_own(file.url):
            return None

        def read(response: requests.Response) -> bytes | None:
            if response.status_code in _GONE or response.is_redirect:
                return None
            _require_success(response, url)
            try:
                return read_body(response, limit, _PAGE_SECONDS)
            except AnswerError:
                return None

        # The query of a signed link is valid for the file alone.
        url = urlsplit(file.url)._replace(query="", fragment="").geturl() + suffix
        return self._read(self._pages, url, read)

    def _is_own(self, url: str) -> bool:
        """Whether a URL is of the index's own host, and not without TLS if the index has that."""
        own, other = urlsplit(self.url), urlsplit(url)
        return (own.scheme, own.netloc) == (other.scheme, other.netloc)

    def _read(
        self,
        reader: Reader,
        url: str,
        use: Callable[[requests.Response], _T],
        headers: Mapping[str, str] = UNCHANGED,
    ) -> _T:
        if urlsplit(self.url).scheme == "https" != urlsplit(url).scheme:
            raise PublishError(
                f"{redact(self.url)} lists {redact(url)}, which is not an https address; "
                "report this to the operator of the index"
            )
        try:
            return self._authenticate(reader, url, use, headers)
        except AnswerError as error:
            raise PublishError(
                f"cannot read {redact(url)}: {error}; check the address, or report this to the "
                "operator of the index",
                code="MW801",
            ) from None
        except requests.RequestException as error:
            raise PublishError(
                f"cannot read {redact(url)}: {explain(error)}; check the address and the network, "
                "then run the same command again",
                code="MW801",
            ) from None

    def _authenticate(
        self,
        reader: Reader,
        url: str,
        use: Callable[[requests.Response], _T],
        headers: Mapping[str, str],
    ) -> _T:
        credentials = None
        # First without them: looking them up may open a keyring or request a token for publishing.
        own = urlsplit(self.url).scheme == urlsplit(url).scheme
        if own and urlsplit(url).netloc == self._trusted_host:

            def use_or_refuse(response: requests.Response) -> _T:
                if response.status_code in (401, 403):
                    raise _RefusedError
                return use(response)

            try:
                return reader.read(url, use_or_refuse, headers=headers)
            except _RefusedError:
                credentials = self._credentials()
        return reader.read(url, use, headers=headers, auth=credentials)


def hash_body(response: requests.Response, copy: IO[bytes] | None = None) -> str:
    """The SHA-256 of a distribution as it is served; copies it on the way if asked to.

    Raises:
        AnswerError: It is too large or too slow.
        requests.RequestException: The connection broke.
    """
    hashed = hashlib.sha256()
    for chunk in chunks(response, _MAX_FILE, _FILE_SECONDS):
        hashed.update(chunk)
        if copy is not None:
            copy.write(chunk)
    return hashed.hexdigest()


def parse_page(content: bytes, content_type: str, url: str) -> Mapping[str, IndexedFile]:
    """The files on a project's page, which was served at `url`, by name.

    Raises:
        PublishError: It is not a page of a package index.
    """
    from pypi_simple import ProjectPage
    from pypi_simple.errors import UnsupportedRepoVersionError

    kind, _, parameters = content_type.partition(";")
    try:
        with warnings.catch_warnings():
            # About a newer minor version: what is known of the older one is still there (PEP 629).
            warnings.simplefilter("ignore")
            if kind.strip().lower() == "application/vnd.pypi.simple.v1+json":
                data = _without_long_names(parse_json(content))
                packages = ProjectPage.from_json_data(data, url).packages
            elif kind.strip().lower() in ("application/vnd.pypi.simple.v1+html", "text/html"):
                charset = parameters.strip().removeprefix("charset=").strip('"') or None
                links = read_links(content, url, charset)
                return {link.name: IndexedFile(link.url, link.sha256) for link in links}
            else:
                raise ValueError("it has another type")
    except (ValueError, UnsupportedRepoVersionError):
        raise PublishError(
            f"{redact(url)} is not a page of a package index; pass the address of its "
            "simple API with --index-url"
        ) from None
    return {
        package.filename: IndexedFile(
            package.url,
            package.digests.get("sha256"),
            package.size,
            _in_a_zone(package.upload_time),
        )
        for package in packages
    }


def _in_a_zone(time: datetime | None) -> datetime | None:
    """A time that means something everywhere; PEP 700 demands a zone."""
    return time if time is not None and time.tzinfo is not None else None


def _without_long_names(page: Any) -> Any:
    """A page without files that cannot exist: pypi-simple parses a name in quadratic time."""
    if isinstance(page, dict) and isinstance(page.get("files"), list):
        files = [
            file
            for file in page["files"]
            if not isinstance(file, dict) or len(str(file.get("filename"))) <= MAX_COMPONENT_BYTES
        ]
        if len(files) > MAX_LINKS:
            raise ValueError(f"it has more than {MAX_LINKS} files")
        return {**page, "files": files}
    return page


class _RefusedError(Exception):
    """The index asks for credentials."""


def _require_success(response: requests.Response, url: str) -> None:
    status = response.status_code
    if status in (401, 403):
        raise PublishError(
            f"{redact(url)}: access denied ({status}); check TWINE_USERNAME and TWINE_PASSWORD",
            code="MW804",
        )
    if not response.ok:
        raise PublishError(
            f"{redact(url)} cannot be read: the index answered {status}", code="MW801"
        )
