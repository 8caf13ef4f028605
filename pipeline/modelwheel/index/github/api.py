"""GitHub's REST API, as far as releases need it: a few requests, with GitHub's own rules about repeating them.

No client library: of those that there are, none continues an upload that broke off, and none knows the state of an asset.
https://docs.github.com/rest/releases and https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import requests
from requests.auth import AuthBase
from requests.exceptions import ChunkedEncodingError, SSLError

from ...errors import PublishError
from ...util.http import (
    RETRIED,
    UNCHANGED,
    UNREACHABLE_ATTEMPTS,
    AnswerError,
    Patience,
    Reader,
    SameHostSession,
    explain,
    is_unreachable,
    read_body,
)
from ...util.records import parse_json
from ...util.text import one_line
from ...util.urls import redact
from ...util.words import time_text
from ..client import hash_body

if TYPE_CHECKING:
    from typing_extensions import Self

DEFAULT_URL = "https://api.github.com"
_MAX_ANSWER, _ANSWER_SECONDS = 64 << 20, 300.0
_AGENT = "modelwheel"
"""GitHub wants a name."""
_PAGE = 100
"""Entries of a list for each request; GitHub's limit."""

Report = Callable[[str], None]


def api_url(environment: Mapping[str, str] = os.environ) -> str:
    """The API's address: GITHUB_API_URL, which Actions sets and GitHub Enterprise needs, or GitHub's own."""
    return (environment.get("GITHUB_API_URL") or DEFAULT_URL).rstrip("/")


def web_url(environment: Mapping[str, str] = os.environ) -> str:
    """The address of the pages of repositories, which serves their files."""
    return (environment.get("GITHUB_SERVER_URL") or "https://github.com").rstrip("/")


class _Token(AuthBase):
    # As `auth`, because requests prefers ~/.netrc to a header.
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class _Anonymous(AuthBase):
    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class GitHub:
    """One repository.

    Args:
        repository: OWNER/REPOSITORY.
        token: Sent to the API and to its own host for uploads, and to no other one.
        url: The API; by default GITHUB_API_URL.
        patience: How failed requests are repeated. GitHub's rate limits are waited for up to its longest wait.
        report: Receives what is waited for, a line at a time.
    """

    def __init__(
        self,
        repository: str,
        *,
        token: str | None = None,
        url: str | None = None,
        patience: Patience | None = None,
        report: Report = lambda _: None,
    ) -> None:
        self.repository = repository
        self.token = os.environ.get("GITHUB_TOKEN") if token is None else token
        self.url = (url or api_url()).rstrip("/")
        self.patience = patience or Patience(longest_wait=900.0)
        self.report = report
        self._files = Reader(self.patience)
        self._session = SameHostSession()
        self._session.headers.update(
            {
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": "2022-11-28",
                "User-Agent": _AGENT,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()
        self._session.close()

    def get(self, path: str) -> Any:
        """The answer of the repository at a path below it; None if there is no such thing.

        Raises:
            PublishError: It cannot be read.
        """
        return self.send("GET", f"{self.url}/repos/{self.repository}{path}", missing=True)

    def list(self, path: str) -> Iterator[Mapping[str, Any]]:
        """Every entry of a list, page by page.

        Raises:
            PublishError: It cannot be read, or there is no such list.
        """
        number = 1
        while True:
            page = self.get(f"{path}?per_page={_PAGE}&page={number}")
            if page is None:
                raise PublishError(
                    f"there is no repository {self.repository} at {redact(self.url)}, or the token cannot read it; "
                    "check its name and GITHUB_TOKEN"
                )
            yield from page
            if len(page) < _PAGE:
                return
            number += 1

    def change(
        self, method: str, path: str, body: object = None, done: Callable[[], bool] | None = None
    ) -> Any:
        """Changes something below the repository; see `send`."""
        self.require_token()
        return self.send(method, f"{self.url}/repos/{self.repository}{path}", body=body, done=done)

    def upload(self, template: str, file: Path, done: Callable[[], bool]) -> Any:
        """Uploads a file to the address that a release names for that; see `send`.

        Raises:
            PublishError: The address belongs to somebody else.
        """
        self.require_token()
        url = template.partition("{")[0]
        if not _same_owner(url, self.url):
            raise PublishError(
                f"{redact(self.url)} says to upload to {redact(url)}, which is another host; "
                "check GITHUB_API_URL"
            )
        return self.send("POST", f"{url}?name={quote(file.name)}", file=file, done=done)

    def download(self, url: str, path: Path | None = None) -> str:
        """Downloads a file of a release, or only reads it; returns its SHA-256.

        Raises:
            PublishError: It cannot be downloaded.
        """

        def use(response: requests.Response) -> str:
            if not response.ok:
                raise PublishError(
                    f"{redact(url)} cannot be read: GitHub answered {response.status_code}"
                )
            if path is None:
                return hash_body(response)
            with path.open("wb") as copy:
                return hash_body(response, copy)

        # The storage that GitHub redirects to must not see the token; requests drops it there.
        own = url.startswith(f"{self.url}/")
        auth = ("x-access-token", self.token) if self.token and own else None
        headers = {**UNCHANGED, "Accept": "application/octet-stream", "User-Agent": _AGENT}
        try:
            return self._files.read(url, use, headers=headers, auth=auth)
        except AnswerError as error:
            raise PublishError(f"cannot read {redact(url)}: {error}") from None
        except requests.RequestException as error:
            raise PublishError(f"cannot read {redact(url)}: {explain(error)}") from None

    def require_token(self) -> None:
        """Raises PublishError if there is no token."""
        if not self.token:
            raise PublishError(
                "no token for GitHub: set GITHUB_TOKEN to one that may write contents of "
                f"{self.repository} (in a workflow: `permissions: contents: write`)"
            )

    def send(
        self,
        method: str,
        url: str,
        *,
        body: object = None,
        file: Path | None = None,
        done: Callable[[], bool] | None = None,
        missing: bool = False,
    ) -> Any:
        """The answer of GitHub as JSON; None if it has none, or `done` says so, or there is nothing and that may be.

        Args:
            method: As in HTTP.
            url: In full.
            body: Sent as JSON.
            file: Sent as it is.
            done: Whether a request whose answer was lost has had its effect. Without it the request can be repeated.
            missing: Whether there may be nothing at this address.

        Raises:
            PublishError: GitHub refuses, or no attempt succeeded.
        """
        attempt, attempts = 0, self.patience.attempts
        what = file.name if file else f"{method} {redact(url).partition('?')[0]}"
        while True:
            attempt += 1
            answer = self._attempt(method, url, body, file)
            if isinstance(answer, requests.RequestException):
                reason, asked = explain(answer), None
                attempts = min(
                    attempts, UNREACHABLE_ATTEMPTS if is_unreachable(answer) else attempts
                )
            else:
                reason, asked = f"GitHub answered {answer.status}", _asked(answer)
                if asked is None and answer.status not in RETRIED:
                    return self._parse(answer, what, missing=missing)
            self._wait(what, reason, asked, attempt, attempts)
            if done is not None and done():
                return None

    def _attempt(
        self, method: str, url: str, body: object, file: Path | None
    ) -> _Answer | requests.RequestException:
        options: dict[str, Any] = {
            "auth": _Token(self.token) if self.token else _Anonymous(),
            "timeout": self.patience.timeout,
            "stream": True,
            "allow_redirects": method == "GET",
        }
        try:
            if file is None:
                return _receive(self._session.request(method, url, json=body, **options))
            with file.open("rb") as stream:
                kind = {"Content-Type": "application/octet-stream"}
                return _receive(self._session.post(url, data=stream, headers=kind, **options))
        except (
            SSLError
        ) as error:  # a ConnectionError, too, but a certificate does not get valid by waiting
            raise PublishError(f"cannot reach {redact(url)}: {explain(error)}") from None
        except (requests.ConnectionError, requests.Timeout, ChunkedEncodingError) as error:
            return error
        except AnswerError as error:
            raise PublishError(f"cannot read {redact(url)}: {error}") from None
        except requests.RequestException as error:
            raise PublishError(f"cannot reach {redact(url)}: {explain(error)}") from None

    def _wait(
        self, what: str, reason: str, asked: float | None, attempt: int, attempts: int
    ) -> None:
        asked = asked or 0.0
        if asked > self.patience.longest_wait:
            raise PublishError(
                f"{what}: {reason}: GitHub's rate limit is used up for another {time_text(asked)}; run the same "
                "command after that, it continues"
            )
        if attempt >= attempts:
            raise PublishError(
                f"{what} failed: {reason} ({attempt} attempts); run the same command again, it continues"
            )
        seconds = max(self.patience.wait(attempt - 1), asked)
        self.report(
            f"{what}: {reason}; trying again in {time_text(seconds)} ({attempt + 1} of {attempts})"
        )
        time.sleep(seconds)

    def _parse(self, answer: _Answer, what: str, *, missing: bool) -> Any:
        if answer.status == requests.codes.not_found and missing:
            return None
        if answer.moved:
            raise PublishError(
                f"{what}: {self.repository} has another name now; give the new one as --github-repository"
            )
        try:
            parsed = parse_json(answer.content) if answer.content else None
        except ValueError:
            raise PublishError(
                f"{redact(self.url)} is not GitHub's API: it does not answer with JSON; check GITHUB_API_URL"
            ) from None
        if answer.status >= requests.codes.bad_request:
            message = parsed.get("message") if isinstance(parsed, dict) else None
            sentence = self._refusal(
                what, answer.status, one_line(redact(str(message or "no reason given")))
            )
            raise RefusedError(sentence, answer.status, _codes(parsed))
        return parsed

    def _refusal(self, what: str, status: int, message: str) -> str:
        if status == requests.codes.unauthorized:
            return "GitHub does not accept the token (401): give a valid one in GITHUB_TOKEN"
        if status in (requests.codes.forbidden, requests.codes.not_found):
            return (
                f"{what}: GitHub refuses ({status}: {message}); the token in GITHUB_TOKEN must be allowed to write "
                f"contents of {self.repository} (in a workflow: `permissions: contents: write`)"
            )
        return f"{what}: GitHub refuses ({status}: {message})"


class RefusedError(PublishError):
    """GitHub refuses a request; repeating it does not help."""

    def __init__(self, message: str, status: int, codes: tuple[str, ...]) -> None:
        super().__init__(message)
        self.status = status
        self.codes = codes
        """Such as `already_exists`."""


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes
    moved: bool
    """Whether it names another address."""


def _receive(response: requests.Response) -> _Answer:
    with response:
        content = read_body(response, _MAX_ANSWER, _ANSWER_SECONDS)
        return _Answer(response.status_code, response.headers, content, response.is_redirect)


def _asked(answer: _Answer) -> float | None:
    """Seconds that a rate limit asks to wait; None if none is used up."""
    if answer.status not in (403, 429):
        return None
    headers = answer.headers
    if headers.get("Retry-After", "").isdecimal():
        return float(headers["Retry-After"])
    if headers.get("X-RateLimit-Remaining") == "0":
        reset = headers.get("X-RateLimit-Reset", "")
        return max(float(reset) - time.time(), 1.0) if reset.isdecimal() else 60.0
    # GitHub asks for at least a minute where it names no time.
    return 60.0 if answer.status == requests.codes.too_many_requests else None


def _codes(parsed: object) -> tuple[str, ...]:
    errors = parsed.get("errors") if isinstance(parsed, dict) else None
    entries = errors if isinstance(errors, list) else []
    return tuple(str(error.get("code")) for error in entries if isinstance(error, dict))


def _same_owner(url: str, api: str) -> bool:
    """Whether uploads to a URL belong to an API: the same host, or `uploads.X` to `api.X`."""
    upload, server = urlsplit(url), urlsplit(api)
    if upload.scheme != server.scheme:
        return False
    if upload.netloc == server.netloc:
        return True
    return server.netloc.startswith("api.") and upload.netloc == f"uploads.{server.netloc[4:]}"
