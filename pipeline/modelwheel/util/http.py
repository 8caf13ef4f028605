"""Reads from HTTP servers: one session that retries, and reasons without credentials."""

from __future__ import annotations

import logging
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin, urlsplit

import requests
from requests import exceptions
from requests.adapters import HTTPAdapter
from urllib3 import exceptions as causes
from urllib3.util import Retry

from .urls import redact
from .words import size_text, time_text

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self
    from urllib3 import BaseHTTPResponse

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Auth = Callable[[requests.PreparedRequest], requests.PreparedRequest]

RETRIED = frozenset({408, 425, 429, *range(500, 600)}) - {501, 505, 507, 509}
"""Status codes after which the same request may succeed."""

UNCHANGED = {"Accept-Encoding": "identity"}
"""For files."""

_HARMLESS = frozenset(
    {"accept", "accept-encoding", "cache-control", "connection", "if-range", "range", "user-agent"}
)
"""Headers that any host may see."""

UNREACHABLE_ATTEMPTS = 3
"""A host that refuses connections, or whose name is unknown, is rarely back within minutes."""

_CHUNK = 1 << 20
"""Bytes read at most at a time."""


class AnswerError(ValueError):
    """An answer is larger, slower or otherwise not what is read; the message says so."""


_BROKEN = (exceptions.ChunkedEncodingError, exceptions.ConnectionError)
"""What requests raises when a connection breaks in the middle of a response."""


@dataclass(frozen=True)
class Patience:
    """How often a request is made, and the waits between; times in seconds."""

    attempts: int = 7
    first_wait: float = 1.0
    """Before the second attempt; each later wait is twice as long."""
    longest_wait: float = 120.0
    """The limit of every wait, also of one that Retry-After asks for."""
    timeout: float = 120.0
    """Without a single byte from the server."""

    def wait(self, attempt: int, retry_after: str | None = None) -> float:
        """Seconds to wait after attempt number `attempt` (from 0) failed."""
        asked = _seconds(retry_after) if retry_after else 0.0
        return min(max(self.first_wait * 2.0**attempt, asked), self.longest_wait)


def _seconds(retry_after: str) -> float:
    """Retry-After as RFC 9110 defines it: seconds or a date; 0 if it is neither."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return 0.0
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - datetime.now(timezone.utc)).total_seconds())


class Reader:
    """Reads over HTTP with retries for GET: connections, status codes, broken responses.

    Credentials come from the URL, from ~/.netrc or from `auth`; none is logged.

    Args:
        patience: How often and how long it tries.
        verify: A bundle of CA certificates instead of the default.
        within_host: Redirections to another host are not followed, but handed to the caller.
        proxies: By scheme, in addition to those of the environment.
    """

    def __init__(
        self,
        patience: Patience | None = None,
        *,
        verify: str | None = None,
        within_host: bool = False,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        self.patience = patience or Patience()
        self._session = SameHostSession() if within_host else _CarefulSession()
        verify = verify or _certificates(os.environ)
        if verify is not None:
            self._session.verify = verify
        self._session.proxies.update(proxies or {})
        for scheme in ("https://", "http://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=_PatientRetry(self.patience)))
        # Its own lines about requests and retries show query strings, and so signed links.
        logging.getLogger("urllib3").setLevel(logging.ERROR)

    def read(
        self,
        url: str,
        use: Callable[[requests.Response], _T],
        *,
        headers: Mapping[str, str] | Callable[[], Mapping[str, str]] = UNCHANGED,
        auth: tuple[str, str] | _Auth | None = None,
        body: bytes | None = None,
    ) -> _T:
        """The result of `use` on the response, whatever its status code.

        `use` reads the body. It is called again, with a new response, if the connection breaks on
        the way, so it has to start from the beginning each time, or from where new `headers` say.

        Args:
            url: What to read.
            use: Returns what is wanted of the response.
            headers: Of the request; a function is called before each one.
            auth: User and password, or a function that prepares the request; by default ~/.netrc says.
            body: Makes it a POST; one that only asks, since it may be sent several times.

        Raises:
            requests.RequestException: No attempt succeeded. The message may hold credentials: show
                `explain(error)` instead.
        """
        # urllib3 retries until there are headers; this loop is for bodies that break off.
        attempt = 0
        while True:
            # Not in `try`: whatever fails before there are headers has been retried by the session.
            with self._session.request(
                "GET" if body is None else "POST",
                url,
                headers=headers() if callable(headers) else headers,
                auth=auth,
                data=body,
                timeout=self.patience.timeout,
                stream=True,
            ) as response:
                try:
                    return use(response)
                except _BROKEN as error:
                    attempt += 1
                    if attempt >= self.patience.attempts:
                        raise
                    why = explain(error)
            # Outside `with`, so that no connection stays open during the wait.
            _wait(self.patience, attempt, redact(url), f"could not be read: {why}")

    def close(self) -> None:
        """Closes all connections."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def no_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Sends a request as it is: requests would replace its `Authorization` by what ~/.netrc has."""
    return request


def _certificates(environment: Mapping[str, str]) -> str | None:
    """The bundle of CA certificates that OpenSSL uses; requests reads its own variables itself."""
    if any(environment.get(name) for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")):
        return None
    return environment.get("SSL_CERT_FILE") or None


def chunks(response: requests.Response, limit: int, within: float) -> Iterator[bytes]:
    """The body of a response as the server stores it, in pieces, whatever encoding it declares.

    Args:
        response: From `Reader.read`.
        limit: Bytes.
        within: Seconds from now. A server may send one byte now and then, without end.

    Raises:
        AnswerError: The body is longer or takes longer.
        requests.RequestException: The connection broke.
    """
    deadline = time.monotonic() + within
    size = 0
    while chunk := _read_some(response):
        size += len(chunk)
        if size > limit:
            raise AnswerError(f"the answer is longer than {size_text(limit)}")
        if time.monotonic() > deadline:
            raise AnswerError("the answer takes too long")
        yield chunk


def _read_some(response: requests.Response) -> bytes:
    """The bytes that have arrived, at least one; empty at the end."""
    # The exceptions of `iter_content`, which waits until a whole chunk has arrived.
    try:
        some: bytes = response.raw.read1(_CHUNK, decode_content=False)
    except causes.ReadTimeoutError as error:
        raise exceptions.ConnectionError(error) from error
    except causes.SSLError as error:
        raise exceptions.SSLError(error) from error
    except causes.HTTPError as error:
        raise exceptions.ChunkedEncodingError(error) from error
    return some


def read_body(response: requests.Response, limit: int, within: float) -> bytes:
    """The whole body, uncompressed if it was sent with gzip; see `chunks`.

    Raises:
        AnswerError: It is longer, before or after that, takes longer, or has another encoding.
        requests.RequestException: The connection broke.
    """
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    content = b"".join(chunks(response, limit, within))
    if encoding in ("", "identity"):
        return content
    # requests would unpack any chain of encodings to any size (CVE-2025-66418, CVE-2025-66471).
    if encoding not in ("gzip", "x-gzip"):
        raise AnswerError("the answer has an encoding that was not asked for")
    stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        unpacked = stream.decompress(content, limit + 1)
    except zlib.error:
        raise AnswerError("the answer is damaged") from None
    if len(unpacked) > limit:
        raise AnswerError(f"the answer is longer than {size_text(limit)}")
    if not stream.eof:
        raise AnswerError("the answer ends too early")
    return unpacked


def explain(error: requests.RequestException) -> str:
    """Why a request failed, without its URL; continues a sentence."""
    cause = _cause(error)
    if isinstance(error, exceptions.SSLError):
        return "the certificate of the host could not be verified, or TLS failed"
    if isinstance(error, exceptions.ProxyError):
        return "the proxy refused or failed"
    if isinstance(error, exceptions.Timeout) or (
        # urllib3 derives NewConnectionError from TimeoutError, also where nothing took long.
        isinstance(cause, causes.TimeoutError) and not isinstance(cause, causes.NewConnectionError)
    ):
        return "the host did not answer in time"
    if isinstance(cause, causes.NewConnectionError):
        unknown = type(cause).__name__ == "NameResolutionError"  # only urllib3 2 has the class
        return "the name of the host is unknown" if unknown else "the host refused the connection"
    if isinstance(error, _BROKEN):
        return "the connection was lost"
    if isinstance(error, _DowngradeError):
        return "the host redirects from https to http"
    if isinstance(error, exceptions.TooManyRedirects):
        return "the host redirects in a circle"
    return f"the request is not possible ({type(error).__name__})"


def is_unreachable(error: requests.RequestException) -> bool:
    """Whether there was no connection at all: the host refused it, or its name is unknown."""
    return isinstance(_cause(error), causes.NewConnectionError)


def _cause(error: Exception | None) -> Exception | None:
    """The failure inside the exceptions that requests and urllib3 wrap around it."""
    if isinstance(error, causes.MaxRetryError):
        return error.reason
    first = error.args[0] if error is not None and error.args else None
    return _cause(first) if isinstance(first, Exception) else error


def _short(error: Exception | None) -> str:
    """Why there was no answer, after the name of the host."""
    if type(error).__name__ == "NameResolutionError":  # only urllib3 2 has the class
        return "is not known by that name"
    if isinstance(error, causes.NewConnectionError):
        return "refused the connection"
    if isinstance(error, causes.TimeoutError):
        return "did not answer in time"
    return "lost the connection"


class _PatientRetry(Retry):
    """urllib3's retries with the waits of `Patience`; hopeless connections fail early."""

    def __init__(self, patience: Patience, **options: Any) -> None:
        self._patience = patience
        defaults = {
            "total": patience.attempts - 1,
            "status_forcelist": RETRIED,
            "raise_on_status": False,  # the last response is the answer
            "allowed_methods": None,  # a POST of `Reader` only asks
        }
        super().__init__(**{**defaults, **options})
        self._where = ""

    # urllib3 makes the Retry of each next attempt by `new`, and knows only its own options.
    def new(self, **options: Any) -> Self:
        return super().new(**{"patience": self._patience, **options})

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: BaseHTTPResponse | None = None,
        error: Exception | None = None,
        _pool: Any = None,
        _stacktrace: TracebackType | None = None,
    ) -> Self:
        # Waiting does not make a certificate valid.
        last = isinstance(error, causes.SSLError) or (
            isinstance(error, causes.NewConnectionError)
            and len(self.history) + 1 >= UNREACHABLE_ATTEMPTS
        )
        # Without any left, urllib3 raises what it raises after the last attempt.
        retries = self.new(total=0) if last else self
        following = super(_PatientRetry, retries).increment(
            method, url, response, error, _pool, _stacktrace
        )
        following._where = f"{getattr(_pool, 'host', '')}{(url or '').partition('?')[0]}"
        return following

    # Replaces urllib3's own waits, which obey a Retry-After of hours.
    def sleep(self, response: BaseHTTPResponse | None = None) -> None:
        last = self.history[-1]
        asked = None if response is None else response.headers.get("Retry-After")
        why = f"answered {last.status}" if last.status else _short(last.error)
        attempts = self._patience.attempts
        if isinstance(last.error, causes.NewConnectionError):
            attempts = min(attempts, UNREACHABLE_ATTEMPTS)
        _wait(
            replace(self._patience, attempts=attempts), len(self.history), self._where, why, asked
        )


def _wait(
    patience: Patience, failures: int, what: str, why: str, retry_after: str | None = None
) -> None:
    seconds = patience.wait(failures - 1, retry_after)
    _log.warning(
        "%s %s; trying again in %s (%d of %d)",
        what,
        why,
        time_text(seconds),
        failures + 1,
        patience.attempts,
    )
    time.sleep(seconds)


class _DowngradeError(exceptions.RequestException):
    """A host redirects from https to http."""


class _CarefulSession(requests.Session):
    """Follows no redirection from https to http, where anybody on the way can change the answer."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        # For requests, None is no redirection: the caller gets the response as it came.
        was_safe = urlsplit(resp.url).scheme == "https"
        if was_safe and target and urlsplit(urljoin(resp.url, target)).scheme != "https":
            raise _DowngradeError
        return target

    def rebuild_auth(
        self, prepared_request: requests.PreparedRequest, response: requests.Response
    ) -> None:
        # requests removes `Authorization` alone, and other headers may hold credentials, too.
        there, next_ = response.request.url or "", prepared_request.url or ""
        if self.should_strip_auth(there, next_):  # type: ignore[no-untyped-call]
            for name in set(map(str.lower, prepared_request.headers)) - _HARMLESS:
                del prepared_request.headers[name]
        super().rebuild_auth(prepared_request, response)  # type: ignore[no-untyped-call]


class SameHostSession(_CarefulSession):
    """Follows redirections within one host only."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        if target is None:
            return None
        absolute = urljoin(resp.url, target)
        return target if urlsplit(absolute).hostname == urlsplit(resp.url).hostname else None
