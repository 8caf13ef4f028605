"""Publishes a release: plan, upload, then download and compare.

An interrupted publication is simply repeated: files that the index has are skipped, and never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import PublishError
from ..util.http import Patience
from ..util.urls import redact, url_problem
from .client import PackageIndex
from .compare import compare, is_listed
from .order import warn_of_order
from .plan import Plan, Release, Rules, make_plan
from .pypi import is_pypi, warn_of_new_names
from .upload import Uploader, simple_api

if TYPE_CHECKING:
    from typing_extensions import Self


class Publisher:
    """One index that releases are published to.

    Credentials are those that twine finds in TWINE_USERNAME and TWINE_PASSWORD, in the keyring, or by
    trusted publishing. They are looked up on first use, without prompting.

    Args:
        repository_url: Where files are posted.
        index_url: The index's simple API; by default `simple/` below `repository_url`.
        rules: What the index accepts.
        patience: How failed requests are repeated.
        report: Receives progress, a line at a time.

    Raises:
        PublishError: An address is not valid or contains credentials.
    """

    def __init__(
        self,
        repository_url: str,
        *,
        index_url: str | None = None,
        rules: Rules | None = None,
        patience: Patience | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        _check_url("--repository-url", repository_url)
        if index_url is not None:
            _check_url("--index-url", index_url)
        self._url = repository_url
        self._rules = rules or Rules()
        self._patience = patience or Patience()
        self._report = report
        self._uploader = Uploader(repository_url, self._patience, report)
        self._index = PackageIndex(
            index_url or simple_api(repository_url),
            self._patience,
            urlsplit(repository_url).netloc,
            self._uploader.credentials,
            self._uploader.ca_bundle,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._index.close()

    def plan(self, files: Sequence[Path], release: Release | None = None) -> Plan:
        """See `make_plan`; models whose inputs or outputs have moved since the version before have a warning."""
        planned = make_plan(files, self._url, self._index, self._rules, release)
        warnings = list(warn_of_order(planned.wheels_to_upload, self._index))
        if is_pypi(self._url):
            warnings += warn_of_new_names(planned.new_projects)
        return replace(planned, warnings=tuple(warnings))

    def publish(self, plan: Plan) -> list[str]:
        """Uploads what is missing, then downloads and compares every file of the plan.

        Returns:
            The names of the files that were uploaded.

        Raises:
            PublishError: A file is refused, cannot be uploaded, or is not served as it was sent.
        """
        plan.require_acceptable()
        missing = [file for file in plan.files if file.action == "upload"]
        # Without files to upload no credentials are needed: a repeated publication only compares.
        if missing:
            with self._uploader.session() as session:
                for number, file in enumerate(missing, 1):
                    self._report(f"uploading {file.name} ({number} of {len(missing)})")
                    self._uploader.upload(session, file, partial(is_listed, self._index))
        compare(self._index, plan.files, self._patience, self._report)
        return [file.name for file in missing]


def _check_url(option: str, url: str) -> None:
    problem = url_problem(url, ("https", "http"))
    if problem is not None:
        raise PublishError(f"{option}: {problem}")
    # Command lines are visible to other processes, and stay in logs and in the shell's history.
    if "@" in urlsplit(url).netloc:
        raise PublishError(
            f"{option} {redact(url)}: an address must not contain credentials; set TWINE_USERNAME "
            "and TWINE_PASSWORD, or store them in the keyring",
            code="MW804",
        )
