"""Pins what an address names now, for a new spec."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from ..errors import SourceError
from ..spec.sources import (
    AnySource,
    ArchiveSource,
    FileSource,
    HuggingFaceSource,
)
from ..spec.sources.addresses import check_file_address, is_archive_name, name_in_url
from ..store.store import Store
from ..util.files import digest_file
from .download import Place, Tell, Transfer, open_reader
from .fetch import FETCH_TIMEOUT, FetchedModel, fetch
from .git.repository import list_remote
from .hosts.huggingface import remote_of
from .obtain import obtain_place, place_beside
from .references import find_references

_HUB = re.compile(
    r"hf://(?P<name>((datasets|spaces)/)?[^/@]+/[^/@]+)(@(?P<revision>[^/@]+))?(/(?P<path>.*))?"
)


@dataclass(frozen=True)
class PinnedModel:
    """A model with its pin."""

    fetched: FetchedModel
    source: AnySource
    fields: Mapping[str, Any]
    """What a spec says of it."""


def pin_address(address: str, store: Store, tell: Tell) -> PinnedModel:
    """Fetches what an address names, and pins it.

    Args:
        address: `https://`, `file://`, `s3://`, `gs://`, with `#path` for what is in an archive; or
            `hf://OWNER/NAME@REVISION/PATH`.
        store: Keeps it.
        tell: Receives what has arrived.

    Raises:
        SourceError: There is no model at that address.
    """
    try:
        if address.startswith("hf://"):
            return _pin_repository(address, store, tell)
        return _pin_file(address, store, tell)
    except (PydanticCustomError, ValidationError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise SourceError(f"--model: {first}; name a path, or an https:// address") from None


def _pin_repository(address: str, store: Store, tell: Tell) -> PinnedModel:
    match = _HUB.fullmatch(address)
    if match is None:
        raise SourceError(f"{address} is not an address; write hf://OWNER/NAME@REVISION/model.onnx")
    fields = {
        "huggingface": match["name"],
        "commit": "1" * 40,
        "path": match["path"] or ".",
    }
    remote = remote_of(HuggingFaceSource.model_validate(fields))
    fields["commit"] = list_remote(remote, match["revision"] or "HEAD", FETCH_TIMEOUT)
    source = HuggingFaceSource.model_validate(fields)
    return PinnedModel(fetch(source, store, tell=tell), source, fields)


def _pin_file(address: str, store: Store, tell: Tell) -> PinnedModel:
    url, _, path = address.partition("#")
    transfer = Transfer(FETCH_TIMEOUT, tell)
    name = name_in_url(check_file_address(url))
    with store.scratch() as scratch, open_reader(FETCH_TIMEOUT) as reader:
        file = scratch / name
        obtain_place(Place(url), None, file, transfer, reader)
        pins: dict[str, str] = {}
        if not is_archive_name(name) and name.endswith(".onnx"):
            with file.open("rb") as opened:
                beside = find_references(opened)
            for other in beside:
                target = scratch / other
                target.parent.mkdir(parents=True, exist_ok=True)
                place = place_beside(url, other)
                obtain_place(place, None, target, transfer, reader)
                pins[other] = digest_file(target).sha256
        kind = "archive" if is_archive_name(name) else "file"
        given = {kind: url, "sha256": digest_file(file).sha256}
        given |= {"path": path} if path else {}
        fields = {**given, **({"beside": pins} if pins else {})}
        section = ArchiveSource if kind == "archive" else FileSource
        source = section.model_validate(fields)
        # It is here, and the store knows it by its content: nothing is transferred again.
        here = section.model_validate({**fields, kind: file.as_uri()})
        return PinnedModel(fetch(here, store, tell=tell), source, fields)
