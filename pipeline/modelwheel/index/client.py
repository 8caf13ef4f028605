"""Asks a package index what it holds, patiently: its simple API (PEP 503, PEP 691) and its files."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urljoin, urlsplit

import requests
from pypi_simple import ACCEPT_ANY, ProjectPage, UnsupportedContentTypeError
from pypi_simple.errors import UnsupportedRepoVersionError

from ..errors import PublishError
from ..util.files import CHUNK
from ..util.urls import redact

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_AGAIN = frozenset({408, 425, 429})
# A server that calls a .tar.gz "encoded as gzip" would have it unpacked on the way.
_AS_IT_IS = {"Accept-Encoding": "identity"}

Credentials = Callable[[], tuple[str, str] | None]


@dataclass(frozen=True)
class Patience:
    """How often, how long and after which waits an index is asked; times in seconds."""

    attempts: int = 7
    first_wait: float = 1.0
    """Before the second attempt; each later wait is twice as long."""
    longest_wait: float = 120.0
    """What Retry-After can ask for at most."""
    timeout: float = 120.0
    """Without a single byte from the index."""

    def wait(self, attempt: int, retry_after: str | None = None) -> float:
        """Seconds to wait after attempt number `attempt` (from 0) failed."""
        asked = _seconds(retry_after) if retry_after else 0.0
        return min(max(self.first_wait * 2.0**attempt, asked), self.longest_wait)


def _seconds(retry_after: str) -> float:
    """Retry-After as RFC 9110 has it: seconds, or a date; 0 if it is neither."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - datetime.now(timezone.utc)).total_seconds())


@dataclass(frozen=True)
class IndexedFile:
    """A file that the index offers."""

    url: str
    sha256: str | None
    """What the index says; None if it says nothing."""


@dataclass(frozen=True)
class Failure:
    """An attempt that may succeed when it is repeated."""

    reason: str
    retry_after: str | None = None


def failure_of(response: requests.Response) -> Failure | None:
    """What to say of an answer that another attempt may better; None of one that is final."""
    if response.status_code not in _AGAIN and response.status_code < 500:
        return None
    reason = f"the index answered {response.status_code}"
    return Failure(reason, response.headers.get("Retry-After"))


def failure_of_error(error: requests.RequestException) -> Failure | None:
    """The same for a connection; the messages of requests are not passed on: they hold URLs."""
    if isinstance(error, requests.Timeout):
        return Failure("the index did not answer in time")
    lost = (requests.ConnectionError, requests.exceptions.ChunkedEncodingError)
    if isinstance(error, lost) and not isinstance(error, requests.exceptions.SSLError):
        return Failure("the connection to the index was lost or refused")
    return None


class PackageIndex:
    """The reading side of one index.

    It is asked anonymously. Only if it answers 401 or 403 are the credentials used, and only for
    `trusted_host`, to which the user gave them.

    Args:
        url: Its simple API.
        trusted_host: Host and port that may see the credentials.
        credentials: Finds user name and password; None if there are none.
        verify: The CA bundle that vouches for the index, if not the system's.
    """

    def __init__(
        self,
        url: str,
        patience: Patience,
        trusted_host: str,
        credentials: Credentials,
        verify: str | None = None,
    ) -> None:
        self.url = url.rstrip("/") + "/"
        self._patience = patience
        self._trusted_host = trusted_host
        self._credentials = credentials
        logging.getLogger("urllib3").setLevel(logging.INFO)  # its debug lines hold signed links
        self._pages = _PageSession()
        self._downloads = requests.Session()
        if verify is not None:
            self._pages.verify = self._downloads.verify = verify

    def close(self) -> None:
        """Closes its connections."""
        self._pages.close()
        self._downloads.close()

    def files(self, project: str) -> Mapping[str, IndexedFile] | None:
        """Every file of a project by its name; None if the index has no such project.

        A redirection to another host is where an index sends those who ask for what it does not
        hold, so that counts as none.

        Raises:
            PublishError: The index cannot be reached, refuses, or answers something else.
        """
        url = urljoin(self.url, quote(project) + "/")

        def parse(response: requests.Response) -> Mapping[str, IndexedFile] | None:
            if response.status_code in (404, 410) or response.is_redirect:
                return None
            try:
                page = ProjectPage.from_response(response, project)
            except (ValueError, UnsupportedContentTypeError, UnsupportedRepoVersionError):
                raise PublishError(
                    f"{redact(url)} is no page of a package index; give the address of its simple "
                    "API with --index-url"
                ) from None
            return {
                package.filename: IndexedFile(package.url, package.digests.get("sha256"))
                for package in page.packages
            }

        headers = {"Accept": ACCEPT_ANY, "Cache-Control": "no-cache"}
        return self._get(self._pages, url, headers, parse, missing_ok=True)

    def sha256(self, file: IndexedFile) -> str:
        """The SHA-256 of the bytes that the index serves for a file, downloaded for that.

        Raises:
            PublishError: It cannot be downloaded.
        """

        def digest(response: requests.Response) -> str:
            hashed = hashlib.sha256()
            for chunk in response.iter_content(CHUNK):
                hashed.update(chunk)
            return hashed.hexdigest()

        return self._get(self._downloads, file.url, _AS_IT_IS, digest)

    def download(self, file: IndexedFile, path: Path) -> None:
        """Writes the bytes that the index serves for a file.

        Raises:
            PublishError: They cannot be downloaded, or are not what the index says.
        """

        def write(response: requests.Response) -> str:
            hashed = hashlib.sha256()
            with path.open("wb") as copy:
                for chunk in response.iter_content(CHUNK):
                    hashed.update(chunk)
                    copy.write(chunk)
            return hashed.hexdigest()

        served = self._get(self._downloads, file.url, _AS_IT_IS, write)
        if file.sha256 not in (None, served):
            raise PublishError(
                f"{redact(file.url)} has SHA-256 {served}, and the index says {file.sha256}; "
                "tell whoever runs the index"
            )

    def find_beside(self, file: IndexedFile, suffix: str, limit: int = 1 << 20) -> bytes | None:
        """What the index's own host serves at a file's address with a suffix; None if nothing.

        Args:
            file: One that this index lists.
            suffix: Follows the file's whole name.
            limit: Bytes of a companion; a longer one is none.

        Raises:
            PublishError: The host fails.
        """
        if urlsplit(file.url).netloc != urlsplit(self.url).netloc:
            return None

        def read(response: requests.Response) -> bytes | None:
            if not response.ok:
                return None
            content = b"".join(response.iter_content(limit + 1))
            return content if len(content) <= limit else None

        url = urlsplit(file.url)._replace(query="", fragment="").geturl() + suffix
        return self._get(self._pages, url, _AS_IT_IS, read, missing_ok=True)

    def _get(
        self,
        session: requests.Session,
        url: str,
        headers: Mapping[str, str],
        use: Callable[[requests.Response], _T],
        *,
        missing_ok: bool = False,
    ) -> _T:
        failure = Failure("no attempt was made")
        for attempt in range(self._patience.attempts):
            if attempt:
                time.sleep(self._patience.wait(attempt - 1, failure.retry_after))
            try:
                with self._ask(session, url, headers) as response:
                    again = failure_of(response)
                    if again is None:
                        _require_answer(response, url, missing_ok=missing_ok)
                        return use(response)
            except requests.RequestException as error:
                again = failure_of_error(error)
                if again is None:
                    kind = type(error).__name__
                    raise PublishError(
                        f"cannot ask {redact(url)} ({kind}); check the address"
                    ) from None
            _log.debug("%s: %s", redact(url), again.reason)
            failure = again
        raise PublishError(
            f"cannot ask {redact(url)}: {failure.reason} ({self._patience.attempts} attempts); "
            "check the address and the network, then run the same command again"
        )

    def _ask(
        self, session: requests.Session, url: str, headers: Mapping[str, str]
    ) -> requests.Response:
        timeout = self._patience.timeout
        response = session.get(url, headers=headers, timeout=timeout, stream=True)
        if response.status_code in (401, 403) and urlsplit(url).netloc == self._trusted_host:
            credentials = self._credentials()
            if credentials is not None:
                response.close()
                response = session.get(
                    url, headers=headers, timeout=timeout, stream=True, auth=credentials
                )
        return response


class _PageSession(requests.Session):
    """Follows redirections within one host only."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        if target is None:
            return None
        absolute = urljoin(resp.url, target)
        return target if urlsplit(absolute).hostname == urlsplit(resp.url).hostname else None


def _require_answer(response: requests.Response, url: str, *, missing_ok: bool) -> None:
    status = response.status_code
    if response.ok or (missing_ok and status in (404, 410)):
        return
    if status in (401, 403):
        raise PublishError(
            f"{redact(url)} may not be read ({status}); check TWINE_USERNAME and TWINE_PASSWORD"
        )
    raise PublishError(f"{redact(url)} cannot be read: the index answered {status}")
