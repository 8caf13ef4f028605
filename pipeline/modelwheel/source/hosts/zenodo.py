"""Finds a file of a record of Zenodo; the record says its size and MD5 before it is downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ...errors import SourceError
from ...spec.sources import ZenodoSource
from ...spec.sources.files import DOI
from ...util.records import parse_json
from ...util.words import suggest
from ..download import Place, explained

if TYPE_CHECKING:
    import requests

    from ...util.http import Reader

HOSTS = {"5281": "https://zenodo.org", "5072": "https://sandbox.zenodo.org"}
"""By the prefix of the DOI."""
_MAX_RECORD = 16 << 20
_SECONDS = 60.0

_HINTS = {
    403: "the record is restricted: download the file, and name it as `file: file:///PATH`",
    404: "correct source.zenodo",
    410: "the record was removed: choose another source",
}


@dataclass(frozen=True)
class Record:
    """A version of a record."""

    url: str
    doi: str
    files: Mapping[str, Mapping[str, Any]]

    def place(self, name: str) -> Place:
        """Where a file of the record is.

        Raises:
            SourceError: The record does not have it.
        """
        file = self.files.get(name)
        if file is None:
            raise SourceError(
                f"the Zenodo record {self.doi} has no file {name!r}; {suggest(name, self.files)}"
            )
        kind, _, checksum = str(file.get("checksum", "")).partition(":")
        size = file.get("size")
        return Place(
            f"{self.url}/files/{quote(name)}?download=1",
            f"{name} of the Zenodo record {self.doi}",
            size=size if isinstance(size, int) else None,
            md5=checksum if kind == "md5" else None,
            hints=_HINTS,
        )


def read_record(source: ZenodoSource, reader: Reader, timeout: float) -> Record:
    """The record of a DOI.

    Raises:
        SourceError: There is none, or the DOI is that of all versions of a record.
    """
    from ...util.http import read_body

    match = DOI.fullmatch(source.zenodo)
    assert match is not None
    host, number = HOSTS[match["prefix"]], match["number"]
    shown = f"the Zenodo record {source.zenodo}"

    def parse(response: requests.Response) -> Any:
        if not response.ok:
            hint = _HINTS.get(response.status_code, "try again later")
            raise SourceError(
                f"cannot read {shown}: HTTP status {response.status_code}; {hint}", code="MW301"
            )
        return parse_json(read_body(response, _MAX_RECORD, min(timeout, _SECONDS)))

    headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
    try:
        with explained(shown, timeout):
            record = reader.read(f"{host}/api/records/{number}", parse, headers=headers)
        files = {str(file["key"]): file for file in record["files"]}
        own = str(record["id"])
    except (ValueError, LookupError, TypeError):
        raise SourceError(f"{host} did not answer with {shown}; try again later") from None
    if own != number:
        raise SourceError(
            f"{source.zenodo} is the DOI of all versions of a record, which may grow; pin one of them, such as "
            f"10.{match['prefix']}/zenodo.{own}"
        )
    return Record(f"{host}/records/{number}", source.zenodo, files)
