"""One release on GitHub: what it has, and how a draft becomes public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from ...errors import PublishError
from ...util.text import one_line
from ..client import IndexedFile
from .api import GitHub, RefusedError

State = Literal["absent", "draft", "published"]

MAX_BYTES = (2 << 30) - 1
"""GitHub's limit for a file."""
MAX_ASSETS = 1000
"""GitHub's limit for a release."""
_TRIES = 3
"""Of an upload that GitHub refuses because it has a file of that name, which is deleted then."""


@dataclass(frozen=True)
class Asset:
    """A file of a release."""

    number: int
    name: str
    size: int
    sha256: str | None
    """As GitHub states it; None for files that it has not hashed."""
    whole: bool
    """False for what an upload that broke off left behind."""
    url: str
    """In the API; needs the token where the repository is private, and for drafts."""
    public_url: str

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Asset:
        """An asset as the API describes it."""
        kind, _, digest = str(fields.get("digest") or "").partition(":")
        return cls(
            int(fields["id"]),
            str(fields["name"]),
            int(fields["size"]),
            digest if kind == "sha256" else None,
            fields.get("state") == "uploaded",
            str(fields["url"]),
            str(fields["browser_download_url"]),
        )


class Release:
    """The release of one tag; a plan's target.

    Args:
        github: The repository.
        tag: `NAME-VERSION`.

    Raises:
        PublishError: GitHub cannot be read, or has several drafts for the tag.
    """

    def __init__(self, github: GitHub, tag: str) -> None:
        self.tag = tag
        self._github = github
        self.reload()

    def reload(self) -> None:
        """Reads again what GitHub has."""
        path = f"/releases/tags/{quote(self.tag)}"
        self._said: Mapping[str, Any] = self._github.get(path) or self._find_draft() or {}
        self.assets = self._read_assets() if self._said else {}

    def _find_draft(self) -> Mapping[str, Any] | None:
        # Drafts have no tag yet, so that they are found in the list alone. Without a token nobody sees them.
        drafts = [
            release
            for release in self._github.list("/releases")
            if release["draft"] and release["tag_name"] == self.tag
        ]
        if len(drafts) > 1:
            raise PublishError(
                f"{self._github.repository} has {len(drafts)} drafts of a release {one_line(self.tag)}; delete all but one"
            )
        return drafts[0] if drafts else None

    def _read_assets(self) -> dict[str, Asset]:
        listed = self._github.list(f"/releases/{self._said['id']}/assets")
        return {asset.name: asset for asset in map(Asset.read, listed)}

    @property
    def state(self) -> State:
        """Whether there is a release, and whether it is public."""
        if not self._said:
            return "absent"
        return "draft" if self._said["draft"] else "published"

    @property
    def immutable(self) -> bool:
        """Whether GitHub keeps everybody from changing it."""
        return bool(self._said.get("immutable"))

    @property
    def url(self) -> str:
        """Its page."""
        return str(self._said.get("html_url") or f"{self._github.repository} {self.tag}")

    def files(self, project: str) -> Mapping[str, IndexedFile] | None:  # noqa: ARG002 - one project
        """The files of the release, without incomplete uploads."""
        return {
            name: IndexedFile(asset.url, asset.sha256, asset.size)
            for name, asset in self.assets.items()
            if asset.whole
        }

    def sha256(self, file: IndexedFile) -> str:
        """The hash of what GitHub serves.

        Raises:
            PublishError: It cannot be downloaded.
        """
        return self._github.download(file.url)

    def start(self, text: str, *, prerelease: bool) -> None:
        """Makes a draft, if there is none.

        Raises:
            PublishError: The tag does not exist, or GitHub refuses.
        """
        # GitHub would make the tag when the release is published, on whatever commit the branch has then.
        if self._github.get(f"/git/ref/tags/{quote(self.tag)}") is None:
            raise PublishError(
                f"{self._github.repository} has no tag {one_line(self.tag)}; run `modelwheel tag SPEC --push origin` first"
            )
        if self.state != "absent":
            return
        body = {
            "tag_name": self.tag,
            "name": self.tag,
            "body": text,
            "draft": True,
            "prerelease": prerelease,
        }
        self._github.change("POST", "/releases", body, lambda: self._is("draft"))
        self.reload()

    def add(self, file: Path, sha256: str) -> None:
        """Adds a file to the draft; one of the same name with other contents is replaced.

        Raises:
            PublishError: It cannot be uploaded.
        """
        for attempt in range(_TRIES):
            self.remove(file.name)
            try:
                self._github.upload(
                    str(self._said["upload_url"]), file, lambda: self._has(file.name, sha256)
                )
            except RefusedError as refused:
                if "already_exists" not in refused.codes or attempt == _TRIES - 1:
                    raise
                self.reload()  # of another attempt, whose answer was lost
                if self._has(file.name, sha256):
                    return
            else:
                return

    def remove(self, name: str) -> None:
        """Deletes a file of the draft, if there is one."""
        asset = self.assets.pop(name, None)
        if asset is not None:
            try:
                self._github.change("DELETE", f"/releases/assets/{asset.number}")
            except RefusedError as refused:
                if refused.status != 404:  # an answer was lost, and it is gone
                    raise

    def publish(self) -> None:
        """Makes the draft public.

        Raises:
            PublishError: GitHub refuses.
        """
        path = f"/releases/{self._said['id']}"
        self._github.change("PATCH", path, {"draft": False}, lambda: self._is("published"))
        self.reload()

    def _is(self, state: State) -> bool:
        self.reload()
        return self.state == state

    def _has(self, name: str, sha256: str) -> bool:
        """Whether a file was stored; removes what is left of one that was not."""
        self.assets = self._read_assets()
        asset = self.assets.get(name)
        if asset is not None and asset.whole and self._digest(asset) == sha256:
            return True
        self.remove(name)
        return False

    def _digest(self, asset: Asset) -> str:
        return asset.sha256 or self.sha256(IndexedFile(asset.url, None))

    def differences(self, expected: Mapping[str, str]) -> list[str]:
        """The problems of its files.

        Args:
            expected: SHA-256 of all files by name.
        """
        problems = []
        for name in sorted(expected.keys() | self.assets.keys()):
            asset = self.assets.get(name)
            if asset is None or not asset.whole:
                problems.append(f"{one_line(name)} is missing")
            elif name not in expected:
                problems.append(f"{one_line(name)} is not one of these files")
            elif (digest := self._digest(asset)) != expected[name]:
                problems.append(
                    f"{one_line(name)} has SHA-256 {digest} instead of {expected[name]}"
                )
        return problems
