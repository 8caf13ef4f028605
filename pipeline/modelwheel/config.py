"""Reads `modelwheel.toml`, which holds the addresses that an organisation's commands share.

    [index]
    url = "https://index.example.org/simple/"               # the simple API that wheels are installed from
    upload = "https://index.example.org/upload/"     # where `modelwheel publish` uploads
    site = "https://models.example.org/simple/"       # the simple API of the static site

The file is committed beside the specs because GitHub does not pass repository variables to pull
requests from forks; an address that came from a variable would be missing there.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, StrictStr, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from .errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE_NAME = "modelwheel.toml"

Field: TypeAlias = Literal["url", "upload", "site"]
"""A field of the section `index`."""


_WRONG_ADDRESS = "must be an https:// address, such as https://example.org/simple/"


def _check_address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise PydanticCustomError("address", _WRONG_ADDRESS)
    if parts.username or parts.password:
        # The file is committed, and its addresses appear in logs.
        raise PydanticCustomError("address", "must not contain a user name or password")
    return text


_Address = Annotated[StrictStr, AfterValidator(_check_address)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Index(_Section):
    """The section `index`: the addresses of the package index and of the static site."""

    url: _Address | None = None
    upload: _Address | None = None
    site: _Address | None = None


class Config(_Section):
    """Everything in a `modelwheel.toml`."""

    index: Index = Index()


def find_config(start: Path) -> Path | None:
    """The nearest `modelwheel.toml` in `start` or above it, but not above its git checkout."""
    for directory in (start, *start.parents):
        path = directory / FILE_NAME
        if path.is_file():
            return path
        if (directory / ".git").exists():  # a file in a worktree or submodule
            return None
    return None


def load_config(start: Path | None = None) -> Config:
    """The configuration for a directory, by default the current one; empty where there is no file.

    Raises:
        UsageError: The file cannot be read or has mistakes; the message lists them all.
    """
    path = find_config((start or Path()).absolute())
    return Config() if path is None else _read(path)


def find_address(field: Field, given: str | None) -> str | None:
    """The address that an option gave, else the one in `modelwheel.toml`.

    Workflows pass an empty option where a repository variable is not set; it counts as not given.
    """
    address: str | None = given or getattr(load_config().index, field)
    return address


def require_address(field: Field, given: str | None, option: str) -> str:
    """Like `find_address`, for commands that need an address.

    Raises:
        UsageError: Neither names an address.
    """
    address = find_address(field, given)
    if address is None:
        raise UsageError(
            f"no address given: pass {option} URL, or set `{field}` in section [index] of {FILE_NAME}"
        )
    return address


def _read(path: Path) -> Config:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        return Config.model_validate(document)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValidationError as error:
        raise UsageError(
            "\n".join(f"{path}: {_explain(problem)}" for problem in error.errors())
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: is not valid TOML: {error}") from None


def _explain(problem: ErrorDetails) -> str:
    """One mistake as `index.url: what is wrong`."""
    *parents, name = [str(part) for part in problem["loc"]]
    wrong = problem["msg"]
    if problem["type"] == "extra_forbidden":
        known = list((Index if parents else Config).model_fields)
        near = difflib.get_close_matches(name, known, n=1)
        wrong = "unknown field. " + (
            f"Did you mean '{near[0]}'?" if near else f"Known here: {', '.join(known)}"
        )
    elif problem["type"] == "string_type":
        wrong = f"must be text in quotation marks, got {problem['input']!r}"
    elif problem["type"] == "model_type":
        wrong = f"must be a section: [{name}]"
    return f"{'.'.join([*parents, name])}: {wrong}"
