"""Finds an asset of a release on GitHub.

Anybody may download assets of public repositories. With a token in the environment (the variables of `gh`), the API says more,
and answers for private repositories. The token goes to that API alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from ...errors import SourceError
from ...spec.sources import GitHubReleaseSource
from ...util.records import parse_json
from ...util.words import suggest
from ..download import Place, explained

if TYPE_CHECKING:
    import requests

    from ...util.http import Reader

_MAX_ANSWER = 16 << 20
_SECONDS = 60.0
_GITHUB = "github.com"


def token_for(host: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The token for a host, if the environment has one; see `gh help environment`."""
    if host == _GITHUB:
        names = ("GH_TOKEN", "GITHUB_TOKEN")
    elif host == environment.get("GH_HOST"):
        # Without that, a spec could name a host that receives the token.
        names = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
    else:
        return None
    return next((environment[name] for name in names if environment.get(name)), None)


class Release:
    """The assets of one release.

    Raises:
        SourceError: The API has no such release, or cannot be reached.
    """

    def __init__(self, source: GitHubReleaseSource, reader: Reader, timeout: float) -> None:
        self._source = source
        parts = urlsplit(source.repository_url)
        own = f"{parts.scheme}://{parts.netloc}"
        self._api = "https://api.github.com" if parts.netloc == _GITHUB else f"{own}/api/v3"
        self._token = token_for(parts.netloc)
        self._assets: Mapping[str, Mapping[str, Any]] | None = None
        if self._token:
            repository, tag = parts.path.strip("/"), quote(source.tag, safe="")
            url = f"{self._api}/repos/{repository}/releases/tags/{tag}"
            self._assets = self._read(reader, url, timeout)

    def _read(
        self, reader: Reader, url: str, timeout: float
    ) -> Mapping[str, Mapping[str, Any]] | None:
        from ...util.http import no_auth, read_body

        def parse(response: requests.Response) -> Any:
            # A token may be of no use for another's public repository.
            if response.status_code in (401, 403, 404):
                return None
            if not response.ok:
                raise SourceError(
                    f"cannot read {url}: HTTP status {response.status_code}; try again later",
                    code="MW301",
                )
            return parse_json(read_body(response, _MAX_ANSWER, min(timeout, _SECONDS)))

        headers = self._headers("application/vnd.github+json") | {"Accept-Encoding": "gzip"}
        try:
            with explained(url, timeout):
                answer = reader.read(url, parse, headers=headers, auth=no_auth)
            return answer and {str(asset["name"]): asset for asset in answer["assets"]}
        except (ValueError, LookupError, TypeError):
            raise SourceError(f"{url} did not answer with a release; try again later") from None

    def _headers(self, accept: str) -> dict[str, str]:
        return {"Accept": accept, "Authorization": f"Bearer {self._token}"}

    def place(self, name: str) -> Place:
        """Where an asset of the release is.

        Raises:
            SourceError: The release does not have it.
        """
        source = self._source
        url = source.url(name)
        if self._assets is None:
            hint = "correct source.github_release, tag and asset"
            hint += "" if self._token else ", or set GH_TOKEN if the repository is private"
            return Place(url, hints={404: hint})
        asset = self._assets.get(name)
        if asset is None:
            raise SourceError(
                f"the release {source.tag} of {source.github_release} has no asset {name!r}; "
                f"{suggest(name, self._assets)}"
            )
        size, address = asset.get("size"), str(asset.get("url"))
        size = size if isinstance(size, int) else None
        if not address.startswith(f"{self._api}/"):
            return Place(url, size=size)
        return Place(address, url, self._headers("application/octet-stream"), size=size)
