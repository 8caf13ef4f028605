"""Uploads files with twine, which knows the protocol, the keyring and trusted publishing.

An upload must not be repeated blindly: its answer may be lost after the file was stored. So the
index is checked after every failure, and twine's and urllib3's own retries are off.
"""

from __future__ import annotations

import argparse
import io
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

import requests
from requests.adapters import HTTPAdapter
from requests.exceptions import ChunkedEncodingError, SSLError
from twine import repository as known
from twine import utils as twine_utils
from twine.exceptions import NonInteractive, TwineException
from twine.package import PackageFile
from twine.repository import Repository
from twine.settings import Settings

from ..errors import PublishError
from ..util.http import RETRIED, UNREACHABLE_ATTEMPTS, Patience, explain, is_unreachable
from ..util.text import one_line
from ..util.urls import redact
from ..util.words import time_text
from .plan import PlannedFile

_NO_CREDENTIALS = "set TWINE_USERNAME and TWINE_PASSWORD, or store them in the keyring"


@dataclass(frozen=True)
class _Failure:
    """A failed attempt that may succeed when it is repeated."""

    reason: str
    retry_after: str | None = None
    attempts: int | None = None
    """How many attempts are worthwhile; None for as many as the user has patience for."""


class Uploader:
    """Posts files to one index.

    Args:
        url: Where files are posted.
        patience: How failed attempts are repeated.
        report: Receives progress, a line at a time.

    Raises:
        PublishError: twine does not accept the URL.
    """

    def __init__(
        self,
        url: str,
        patience: Patience,
        report: Callable[[str], None],
    ) -> None:
        self._url = url
        self._patience = patience
        self._report = report
        self._settings = _settings(url)

    @property
    def ca_bundle(self) -> str | None:
        """The bundle of CA certificates that twine was configured with."""
        return self._settings.cacert

    def credentials(self) -> tuple[str, str] | None:
        """User name and password for the index; None if there are none. Nobody is prompted."""
        try:
            with _quiet():
                username, password = self._settings.username, self._settings.password
        except (TwineException, requests.RequestException):  # none found, or none granted
            return None
        return (username or "", password or "") if username or password else None

    @contextmanager
    def session(self) -> Iterator[Repository]:
        """twine's connection to the index.

        Raises:
            PublishError: There are no credentials, or twine refuses.
        """
        try:
            self._settings.check_repository_url()
            with _quiet():
                repository = self._settings.create_repository()
        except NonInteractive:
            raise PublishError(
                f"no user and password for {redact(self._url)}: {_NO_CREDENTIALS}", code="MW804"
            ) from None
        except (TwineException, requests.RequestException) as error:
            reason = str(error) if isinstance(error, TwineException) else explain(error)
            raise PublishError(
                f"cannot publish to {redact(self._url)}: {one_line(redact(reason))}"
            ) from None
        # Also replaces the adapters of twine, which retry connections (`make_requests_session`).
        adapter = _TimeoutAdapter(self._patience.timeout)
        for scheme in ("http://", "https://"):
            repository.session.mount(scheme, adapter)
        try:
            yield repository
        finally:
            repository.close()

    def upload(
        self, repository: Repository, file: PlannedFile, is_listed: Callable[[PlannedFile], bool]
    ) -> None:
        """Uploads a file, repeatedly if needed, until the index has it.

        Raises:
            PublishError: The index refuses it, or no attempt succeeded.
        """
        attempt, attempts = 0, self._patience.attempts
        while True:
            attempt += 1
            failure = self._attempt(repository, file, is_listed, first=attempt == 1)
            if failure is None:
                return
            attempts = min(attempts, failure.attempts or attempts)
            seconds = self._patience.wait(attempt - 1, failure.retry_after)
            following = f"trying again in {time_text(seconds)} ({attempt + 1} of {attempts})"
            if attempt < attempts:
                self._report(f"{file.name}: {failure.reason}; {following}")
            # Also after the last attempt: an index may list a file some time after it was stored.
            time.sleep(seconds)
            if is_listed(file):
                return
            if attempt >= attempts:
                raise PublishError(
                    f"{file.name} could not be uploaded: {failure.reason} ({attempt} attempts); "
                    "run the same command again to continue with the missing files",
                    code="MW801",
                )

    def _attempt(
        self,
        repository: Repository,
        file: PlannedFile,
        is_listed: Callable[[PlannedFile], bool],
        *,
        first: bool,
    ) -> _Failure | None:
        """Posts a file once; None if it is stored.

        Raises:
            PublishError: Another attempt cannot succeed.
        """
        # Before every attempt: waits are long enough for the file to be replaced.
        package = _read_package(file)
        try:
            with _quiet():
                # twine counts attempts with this argument: after 5xx it would post the file again.
                response = repository.upload(package, max_redirects=1)
        except requests.RequestException as error:
            if not _may_pass(error):
                raise PublishError(
                    f"{file.name} cannot be sent to {redact(self._url)}: {explain(error)}",
                    code="MW801",
                ) from None
            attempts = UNREACHABLE_ATTEMPTS if is_unreachable(error) else None
            return _Failure(explain(error), attempts=attempts)
        status = response.status_code
        if status == requests.codes.ok:
            return None
        if status in RETRIED:
            return _Failure(f"the index answered {status}", response.headers.get("Retry-After"))
        # PyPI answers 400 to a file that it has, pypiserver 409 (`skip_upload` of twine).
        if status in (400, 409):
            if is_listed(file):
                return None
            if not first:  # stored by an earlier attempt, and not listed yet
                return _Failure(f"the index answered {status} and does not list the file")
        raise self._refusal(response, file)

    def _refusal(self, response: requests.Response, file: PlannedFile) -> PublishError:
        status = response.status_code
        if status in (401, 403):
            return PublishError(
                f"{redact(self._url)} rejects the user name or password ({status}): {_NO_CREDENTIALS}"
            )
        if response.is_redirect:
            return PublishError(
                f"{redact(self._url)} redirects uploads ({status}); pass the final address as "
                "--repository-url, usually the same with a / at the end"
            )
        # An index may repeat in its answer what it was sent.
        reason = self._without_secrets(response.reason or "")
        sentence = f"the index rejects {file.name}: {status} {one_line(reason)}".rstrip()
        if (
            status == requests.codes.conflict
        ):  # it has the file, but the page that was read does not list it
            sentence += "; pass the address of its simple API as --index-url, for devpi the one that ends with +simple/"
        return PublishError(sentence)

    def _without_secrets(self, text: str) -> str:
        _, password = self.credentials() or ("", "")
        return redact(text.replace(password, "***") if password else text)


def simple_api(repository_url: str) -> str:
    """The most likely simple API of an index that takes uploads at `repository_url`."""
    for upload, pages in (
        (known.WAREHOUSE, known.WAREHOUSE_WEB),
        (twine_utils.TEST_REPOSITORY, known.TEST_WAREHOUSE),
    ):
        if repository_url.startswith(upload):
            return urljoin(pages, "simple/")
    return urljoin(repository_url.rstrip("/") + "/", "simple/")


class _TimeoutAdapter(HTTPAdapter):
    """Gives every request a time limit; twine sets none and would wait without end."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def send(
        self, request: requests.PreparedRequest, *args: Any, **options: Any
    ) -> requests.Response:
        options["timeout"] = self._seconds
        return super().send(request, *args, **options)


def _may_pass(error: requests.RequestException) -> bool:
    """Whether a connection failed in a way that another attempt may overcome."""
    # First, as it is a ConnectionError, too: a certificate does not get valid by waiting.
    if isinstance(error, SSLError):
        return False
    lost = (requests.ConnectionError, requests.Timeout, ChunkedEncodingError)
    return isinstance(error, lost)


def _read_package(file: PlannedFile) -> PackageFile:
    try:
        package = PackageFile.from_filename(str(file.path), None)
    except (TwineException, ValueError, KeyError) as error:
        raise PublishError(f"twine refuses {file.path}: {one_line(error)}") from None
    if package.sha2_digest != file.sha256:
        raise PublishError(f"{file.path} has changed since it was planned; run the command again")
    return package


def _settings(repository_url: str) -> Settings:
    """twine's own settings, with what it takes from its environment variables."""
    # Through a parser, because it is twine's arguments that read the environment variables.
    parser = argparse.ArgumentParser()
    Settings.register_argparse_arguments(parser)
    options = ["--non-interactive", "--disable-progress-bar"]
    try:
        parsed = parser.parse_args([f"--repository-url={repository_url}", *options])
        return Settings.from_argparse(parsed)
    except TwineException as error:
        raise PublishError(f"--repository-url {redact(repository_url)}: {error}") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps twine from writing to standard output, which is for results, and from warning."""
    logger = logging.getLogger("twine")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
