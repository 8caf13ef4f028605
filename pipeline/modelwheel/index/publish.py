"""Brings the files of a release to a package index with twine, and proves that they arrived.

The index itself is the record of what is done: a publication that broke off goes on with what is
missing, and a file that is there is never changed.
"""

from __future__ import annotations

import argparse
import io
import logging
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urljoin, urlsplit

import requests
from packaging.utils import (
    NormalizedName,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version
from requests.adapters import HTTPAdapter
from twine import repository as known
from twine import utils as twine_utils
from twine.exceptions import NonInteractive, TwineException
from twine.package import PackageFile
from twine.repository import Repository
from twine.settings import Settings

from ..errors import PublishError
from ..util.urls import redact
from .client import Failure, IndexedFile, PackageIndex, Patience, failure_of, failure_of_error

if TYPE_CHECKING:
    from typing_extensions import Self

DEFAULT_MAX_BYTES = 100 << 20
"""The largest file that the public index takes without being asked."""

_KEEPS_VERSIONS = "a published version is never changed: give the model a new version"


@dataclass(frozen=True)
class PlannedFile:
    """One file of a release, and what is to be done with it."""

    path: Path
    project: str
    """Normalised, as the index names it."""
    version: str
    size: int
    """Bytes."""
    sha256: str
    action: Literal["upload", "skip", "refuse"]
    reason: str = ""
    """Why it is skipped or refused."""

    @property
    def name(self) -> str:
        """The file's name on the index."""
        return self.path.name

    def as_json(self) -> dict[str, object]:
        """For machines."""
        return {
            "file": self.name,
            "project": self.project,
            "version": self.version,
            "size": self.size,
            "sha256": self.sha256,
            "action": self.action,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Plan:
    """What a publication would do."""

    repository_url: str
    index_url: str
    files: tuple[PlannedFile, ...]
    """In the order of their uploads: source distributions last."""
    new_projects: tuple[str, ...]
    """Names that the index does not have yet; public indexes grant few a day."""

    def as_json(self) -> dict[str, object]:
        """For machines."""
        return {
            "repository_url": redact(self.repository_url),
            "index_url": redact(self.index_url),
            "new_projects": list(self.new_projects),
            "files": [file.as_json() for file in self.files],
        }

    def require_acceptable(self) -> None:
        """Refuses a release of which a single file is refused.

        Raises:
            PublishError: Names every such file.
        """
        refused = [file for file in self.files if file.action == "refuse"]
        if refused:
            raise PublishError("\n".join(f"{file.name}: {file.reason}" for file in refused))


class Publisher:
    """One index, to which releases go.

    Credentials are what twine finds in TWINE_USERNAME and TWINE_PASSWORD or the keyring, or gets
    by trusted publishing; they are looked up when they are needed first, and nobody is asked.

    Args:
        repository_url: Where files are posted.
        index_url: The index's simple API; `simple/` below the former by default.
        max_bytes: The largest file that the index takes.
        patience: How failures are repeated.
        report: Is told what happens, a line at a time.

    Raises:
        PublishError: The address is not fit.
    """

    def __init__(
        self,
        repository_url: str,
        *,
        index_url: str | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        patience: Patience | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        _require_no_secret(repository_url, index_url or "")
        self._settings = _settings(repository_url)
        self._url = repository_url
        self._max_bytes = max_bytes
        self._patience = patience or Patience()
        self._report = report
        self._index = PackageIndex(
            index_url or _simple_api(repository_url),
            self._patience,
            urlsplit(repository_url).netloc,
            self._credentials,
            self._settings.cacert,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._index.close()

    def plan(self, files: Sequence[Path]) -> Plan:
        """Looks at every file and at what the index holds; changes nothing.

        Raises:
            PublishError: A file is not a distribution, or the index cannot be asked.
        """
        packages = [(path, _read_package(path)) for path in _in_order(files)]
        pages = {
            project: self._index.files(project)
            for project in sorted({canonicalize_name(package.safe_name) for _, package in packages})
        }
        planned = [self._plan_file(path, package, pages) for path, package in packages]
        new = tuple(project for project, page in pages.items() if page is None)
        return Plan(self._url, self._index.url, tuple(planned), new)

    def publish(self, plan: Plan) -> list[str]:
        """Uploads what is missing, then downloads and compares every file of the plan.

        Returns:
            The names of the files that were uploaded.

        Raises:
            PublishError: A file is refused, cannot be uploaded, or is not served as it was sent.
        """
        plan.require_acceptable()
        missing = [file for file in plan.files if file.action == "upload"]
        if missing:
            with self._repository() as repository:
                for number, file in enumerate(missing, 1):
                    self._report(f"uploading {file.name} ({number} of {len(missing)})")
                    self._upload(repository, file)
        self._verify(plan.files)
        return [file.name for file in missing]

    def _plan_file(
        self,
        path: Path,
        package: PackageFile,
        pages: Mapping[NormalizedName, Mapping[str, IndexedFile] | None],
    ) -> PlannedFile:
        project, size = canonicalize_name(package.safe_name), path.stat().st_size
        found = (pages[project] or {}).get(path.name)
        action: Literal["upload", "skip", "refuse"] = "upload"
        reason = ""
        if found is not None:
            same = (found.sha256 or self._index.sha256(found)) == package.sha2_digest
            action = "skip" if same else "refuse"
            reason = "is there" if same else f"is there with other bytes; {_KEEPS_VERSIONS}"
        elif size > self._max_bytes:
            action = "refuse"
            reason = (
                f"has {size / 2**20:.1f} MiB, the index takes {self._max_bytes / 2**20:.1f}; "
                "compile fewer levels or batch sizes, or ask the index for more and say --max-size"
            )
        version, sha256 = package.version, str(package.sha2_digest)
        return PlannedFile(path, project, version, size, sha256, action, reason)

    def _upload(self, repository: Repository, file: PlannedFile) -> None:
        reason = ""
        for attempt in range(self._patience.attempts):
            failure = self._attempt(repository, file, first=attempt == 0)
            if failure is None:
                return
            reason = failure.reason
            seconds = self._patience.wait(attempt, failure.retry_after)
            self._report(f"{file.name}: {reason}; asking again in {seconds:.3g} s")
            time.sleep(seconds)
            if self._is_there(file):  # an answer may be lost after the file was stored
                return
        raise PublishError(
            f"{file.name} could not be uploaded: {reason} ({self._patience.attempts} attempts); "
            "run the same command again, it goes on with what is missing"
        )

    def _attempt(self, repository: Repository, file: PlannedFile, *, first: bool) -> Failure | None:
        """Posts a file once; None if it is stored.

        Raises:
            PublishError: The index will not have it, now or later.
        """
        package = _read_package(file.path)
        if package.sha2_digest != file.sha256:
            raise PublishError(f"{file.path} has changed since it was planned; plan again")
        try:
            with _quiet():
                # Left alone, twine repeats what failed without asking whether it arrived.
                response = repository.upload(package, max_redirects=1)
        except requests.RequestException as error:
            failure = failure_of_error(error)
            if failure is None:
                raise PublishError(
                    f"{file.name} cannot be sent to {redact(self._url)} ({type(error).__name__})"
                ) from None
            return failure
        if response.status_code == requests.codes.ok:
            return None
        return failure_of(response) or self._judge_refusal(response, file, first=first)

    def _judge_refusal(
        self, response: requests.Response, file: PlannedFile, *, first: bool
    ) -> Failure | None:
        status = response.status_code
        if status in (401, 403):
            raise PublishError(
                f"{redact(self._url)} refuses the user or the password ({status}); set "
                "TWINE_USERNAME and TWINE_PASSWORD, or put them into the keyring"
            )
        if status in (400, 409):
            if self._is_there(file):
                return None
            if not first:  # stored by an earlier attempt, and not yet listed
                return Failure(f"the index answered {status} and does not list the file")
        if response.is_redirect:
            raise PublishError(
                f"{redact(self._url)} sends uploads elsewhere ({status}); give the address that it "
                "names as --repository-url, usually the same with a / at the end"
            )
        said = self._without_secrets(response.reason or "")
        raise PublishError(f"the index does not take {file.name}: {status} {said}".rstrip())

    def _is_there(self, file: PlannedFile) -> bool:
        """Whether the index lists a file.

        Raises:
            PublishError: It does, with other bytes.
        """
        found = (self._index.files(file.project) or {}).get(file.name)
        if found is None:
            return False
        if (found.sha256 or self._index.sha256(found)) != file.sha256:
            raise PublishError(f"{file.name} is on the index with other bytes; {_KEEPS_VERSIONS}")
        return True

    def _verify(self, files: Iterable[PlannedFile]) -> None:
        for file in files:
            self._report(f"comparing {file.name}")
            served = self._index.sha256(self._listed(file))
            if served != file.sha256:
                raise PublishError(
                    f"{file.name}: the index serves bytes with SHA-256 {served}, sent were "
                    f"{file.sha256}; tell whoever runs the index, and withdraw the file"
                )

    def _listed(self, file: PlannedFile) -> IndexedFile:
        """A file as its project's page lists it, which may need a while after the upload."""
        for attempt in range(self._patience.attempts):
            found = (self._index.files(file.project) or {}).get(file.name)
            if found is not None:
                break
            time.sleep(self._patience.wait(attempt))
        else:
            raise PublishError(
                f"{file.name} was uploaded, and {redact(self._index.url)} does not list it; run "
                "the same command again later, or give the right --index-url"
            )
        if found.sha256 not in (None, file.sha256):
            raise PublishError(
                f"{file.name}: the index lists SHA-256 {found.sha256}, sent was {file.sha256}"
            )
        return found

    def _credentials(self) -> tuple[str, str] | None:
        try:
            with _quiet():
                username, password = self._settings.username, self._settings.password
        except (TwineException, requests.RequestException):  # none found, or none granted
            return None
        return (username or "", password or "") if username or password else None

    def _without_secrets(self, text: str) -> str:
        _, password = self._credentials() or ("", "")
        return redact(text.replace(password, "***") if password else text)

    @contextmanager
    def _repository(self) -> Iterator[Repository]:
        try:
            self._settings.check_repository_url()
            with _quiet():
                repository = self._settings.create_repository()
        except NonInteractive:
            raise PublishError(
                f"no user and password for {redact(self._url)}: set TWINE_USERNAME and "
                "TWINE_PASSWORD, or put them into the keyring"
            ) from None
        except (TwineException, requests.RequestException) as error:
            said = str(error) if isinstance(error, TwineException) else type(error).__name__
            raise PublishError(f"cannot publish to {redact(self._url)}: {redact(said)}") from None
        adapter = _ImpatientAdapter(self._patience.timeout)
        for scheme in ("http://", "https://"):
            repository.session.mount(scheme, adapter)
        try:
            yield repository
        finally:
            repository.close()


class _ImpatientAdapter(HTTPAdapter):
    """Gives every request a time limit: twine sets none, and would wait for ever."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def send(
        self, request: requests.PreparedRequest, *args: Any, **options: Any
    ) -> requests.Response:
        options["timeout"] = self._seconds
        return super().send(request, *args, **options)


def _settings(repository_url: str) -> Settings:
    """twine's own settings, with what it takes from its environment variables."""
    parser = argparse.ArgumentParser()
    Settings.register_argparse_arguments(parser)
    options = ["--non-interactive", "--disable-progress-bar"]
    try:
        parsed = parser.parse_args([f"--repository-url={repository_url}", *options])
        return Settings.from_argparse(parsed)
    except TwineException as error:
        raise PublishError(f"--repository-url {redact(repository_url)}: {error}") from None


def _require_no_secret(*urls: str) -> None:
    for url in urls:
        try:
            host = urlsplit(url).netloc
        except ValueError as error:
            raise PublishError(f"{redact(url)} is no address: {error}") from None
        if "@" in host:
            raise PublishError(
                f"{redact(url)}: credentials do not belong into an address, where others see them; "
                "set TWINE_USERNAME and TWINE_PASSWORD, or put them into the keyring"
            )


def _simple_api(repository_url: str) -> str:
    """Where an index that takes uploads at `repository_url` most likely lists its files."""
    for upload, pages in (
        (known.WAREHOUSE, known.WAREHOUSE_WEB),
        (twine_utils.TEST_REPOSITORY, known.TEST_WAREHOUSE),
    ):
        if repository_url.startswith(upload):
            return urljoin(pages, "simple/")
    return urljoin(repository_url.rstrip("/") + "/", "simple/")


def _in_order(files: Sequence[Path]) -> list[Path]:
    """Wheels by name, then source distributions: pip must not build where a wheel is coming."""
    seen: set[str] = set()
    for path in files:
        if not path.is_file():
            raise PublishError(f"{path} is not a file; give the wheels that `modelwheel build` put")
        if path.name in seen:
            raise PublishError(f"{path.name} is given twice; a release has one file of each name")
        seen.add(path.name)
    return sorted(files, key=lambda path: (path.suffix != ".whl", path.name))


def _read_package(path: Path) -> PackageFile:
    """What twine will say of a file, if its name and its metadata agree.

    Raises:
        PublishError: It is not a distribution, or contradicts itself.
    """
    try:
        parse = parse_wheel_filename if path.suffix == ".whl" else parse_sdist_filename
        name, version = parse(path.name)[:2]
        package = PackageFile.from_filename(str(path), None)
        agrees = canonicalize_name(package.safe_name) == name and (
            Version(package.version) == version
        )
    except (TwineException, ValueError, KeyError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise PublishError(f"{path} is not a wheel or source distribution: {error}") from None
    if not agrees:
        raise PublishError(
            f"{path} says in its metadata that it is {package.safe_name} {package.version}; "
            "its name says otherwise"
        )
    return package


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
