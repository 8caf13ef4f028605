"""Reads `modelwheel.toml`, which holds the addresses and rules that an organisation's commands share.

    [index]
    url = "https://index.example.org/simple/"               # the simple API that wheels are installed from
    upload = "https://index.example.org/upload/"     # where `modelwheel publish` uploads
    site = "https://models.example.org/simple/"       # the simple API of the static site

    [release]
    mode = "github"                # where releases go: "github", "pypi", or "token" for any index with a password
    repository = "org/models"      # for "github"; by default GITHUB_REPOSITORY, which GitHub Actions sets

    [build]
    platforms = ["linux-x86_64", "macos-arm64"]       # what releases have wheels for; by default everything
    pythons = ["cp312", "cp313"]                      # for models without shared bindings
    bindings = "shared"                               # `package.bindings` in specs of `modelwheel new`

    [catalogue]
    title = "Models of the group"  # above the pages of the site
    logo = "docs/logo.svg"         # beside it; relative to this file
    pictures = "model_specs"       # a directory with NAME.svg or NAME.png of models, for their pages

    [store]
    url = "s3://bucket/modelwheel"                    # a directory or an object store; by default a directory of the user
    cache_gb = 50                                     # the most of object stores that stays on this disk
    upstream = ["/srv/modelwheel/release"]            # stores of others, which are only read; also URLs
    trusted_keys = ["MCowBQYDK2VwAyEA..."]            # their records count if one of these signed them

    [sandbox]
    mode = "preferred"          # run models without one, too; by default "required" but on Windows, which has none, or "off"
    seconds = 3600              # the longest time that a step on a model may take
    reading_seconds = 60        # of the processor, to read it only; one more for each megabyte
    memory_gb = 16              # the most memory that it may use; by default in proportion to the model

    [cluster]
    address = "tls://scheduler.example.org:8786"      # of a Dask scheduler, for `--cluster` without a value
    tls_ca_file = "cluster/ca.pem"                    # for tls://; relative to this file
    tls_cert = "cluster/cert.pem"
    tls_key = "cluster/key.pem"
    resources = {licence = 2}                         # what workers have in addition, and each step takes 1 of

    [metrics]
    port = 9464                 # a build answers Prometheus there; a second one on the same machine goes without
    host = "127.0.0.1"          # the address to listen at
    file = "/var/lib/node_exporter/modelwheel.prom"   # written when a build ends

    [limits]
    tensor_elements = 4294967296     # the largest tensor that a model may ask for; also nodes, ...

The file is committed beside the specs because GitHub does not pass repository variables to pull
requests from forks; an address that came from a variable would be missing there.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    StrictStr,
    ValidationError,
    model_validator,
)
from pydantic import Field as Constraint
from pydantic_core import ErrorDetails, PydanticCustomError

from .errors import UsageError
from .limits import Limits
from .platforms import PYTHONS, WHEEL_PLATFORMS
from .util.places import is_url, url_problem
from .util.words import suggest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE_NAME = "modelwheel.toml"

Field: TypeAlias = Literal["url", "upload", "site"]
"""A field of the section `index`."""

Mode: TypeAlias = Literal["github", "pypi", "token"]
"""Where releases go: releases of GitHub, PyPI, or any index with a password."""


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


_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")


def _check_repository(text: str) -> str:
    if not _REPOSITORY.fullmatch(text):
        raise PydanticCustomError("repository", "must be OWNER/REPOSITORY, such as org/models")
    return text


class ReleaseRules(_Section):
    """The section `release`: where releases go."""

    mode: Mode = "github"
    """Without it, `token` where `index.upload` is set."""
    repository: Annotated[StrictStr, AfterValidator(_check_repository)] | None = None


def _one_of(known: Collection[str], what: str) -> AfterValidator:
    """A check that a text is one of some names."""

    def check(text: str) -> str:
        if text not in known:
            raise PydanticCustomError("unknown", f"unknown {what} {text!r}; {suggest(text, known)}")
        return text

    return AfterValidator(check)


class BuildRules(_Section):
    """The section `build`: what releases have wheels for."""

    platforms: tuple[Annotated[StrictStr, _one_of(WHEEL_PLATFORMS, "platform")], ...] | None = (
        Constraint(default=None, min_length=1)
    )
    """Names of `WHEEL_PLATFORMS`; None for all."""
    pythons: tuple[Annotated[StrictStr, _one_of(PYTHONS, "Python")], ...] = Constraint(
        default=PYTHONS, min_length=1
    )
    """Of `PYTHONS`, for models without shared bindings."""
    bindings: Literal["extension", "shared"] = "extension"
    """`package.bindings` in the specs that `modelwheel new` writes."""


class Catalogue(_Section):
    """The section `catalogue`: what its pages say about who publishes the models."""

    title: Annotated[StrictStr, Constraint(min_length=1, max_length=100)] | None = None
    logo: StrictStr | None = None
    pictures: StrictStr | None = None


# The base64 of what every Ed25519 public key begins with (RFC 8410), and of 32 bytes.
_PUBLIC_KEY = re.compile(r"MCowBQYDK2VwAyEA[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=")


def _check_public_key(text: str) -> str:
    if not _PUBLIC_KEY.fullmatch(text):
        raise PydanticCustomError(
            "public_key",
            "must be an Ed25519 public key: the line between the first and the last of "
            "`openssl pkey -in store.key -pubout`",
        )
    return text


def _check_place(text: str) -> str:
    # Of either kind: the same file is read on every system, and a store that is not there is empty.
    if is_url(text):
        if problem := url_problem(text):
            # The file is committed, and its addresses appear in logs: they must not hold a password.
            raise PydanticCustomError("place", "{problem}", {"problem": problem})
    elif not (PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()):
        raise PydanticCustomError(
            "place",
            "must be an absolute path, such as /srv/modelwheel, or a URL, such as s3://bucket/modelwheel",
        )
    return text


_Place = Annotated[StrictStr, AfterValidator(_check_place)]


class StoreRules(_Section):
    """The section `store`: where it is, the stores of others, and whose records count."""

    url: _Place | None = None
    """A directory or an object store; by default the directory of `MODELWHEEL_CACHE_DIR` or of this user."""
    cache_gb: Annotated[float, Constraint(strict=True, gt=0, allow_inf_nan=False)] = 50
    """The most of object stores that stays on this disk, in gigabytes."""
    upstream: tuple[_Place, ...] = ()
    trusted_keys: tuple[Annotated[StrictStr, AfterValidator(_check_public_key)], ...] = ()


class SandboxRules(_Section):
    """The section `sandbox`: whether models run in one, and what they may use there."""

    mode: Literal["required", "preferred", "off"] = (
        "preferred" if sys.platform == "win32" else "required"
    )
    """Windows has no sandbox; every other system can have one."""
    seconds: Annotated[int, Constraint(strict=True, gt=0)] = 3600
    reading_seconds: Annotated[int, Constraint(strict=True, gt=0)] = 60
    memory_gb: Annotated[float, Constraint(strict=True, gt=0, allow_inf_nan=False)] | None = None


_CLUSTER = re.compile(r"(tcp|tls)://[^\s/@]+:[0-9]{1,5}/?|local(:[1-9][0-9]*)?")


def _check_cluster(text: str) -> str:
    if not _CLUSTER.fullmatch(text):
        raise PydanticCustomError("cluster", "must be tcp://HOST:PORT, tls://HOST:PORT or local:N")
    return text


_Amount = Annotated[float, Constraint(gt=0, allow_inf_nan=False)]


class ClusterRules(_Section):
    """The section `cluster`: where steps of builds run with `--cluster`, and how machines know each other."""

    address: Annotated[StrictStr, AfterValidator(_check_cluster)] | None = None
    tls_ca_file: StrictStr | None = None
    tls_cert: StrictStr | None = None
    tls_key: StrictStr | None = None
    resources: Mapping[StrictStr, _Amount] = Constraint(default={})
    """Further resources of Dask: workers of modelwheel have so much of each, and each step takes 1."""


class MetricsRules(_Section):
    """The section `metrics`: where builds show their metrics to Prometheus."""

    port: Annotated[int, Constraint(strict=True, ge=1, le=65535)] | None = None
    """The option `--metrics-port` overrides it."""
    host: StrictStr = "127.0.0.1"
    file: StrictStr | None = None
    """For the textfile collector of Prometheus's node exporter."""


class Config(_Section):
    """Everything in a `modelwheel.toml`."""

    index: Index = Index()
    release: ReleaseRules = ReleaseRules()
    build: BuildRules = BuildRules()
    catalogue: Catalogue = Catalogue()
    store: StoreRules = StoreRules()
    sandbox: SandboxRules = SandboxRules()
    cluster: ClusterRules = ClusterRules()
    metrics: MetricsRules = MetricsRules()
    limits: Limits = Limits()

    @model_validator(mode="before")
    @classmethod
    def _choose_mode(cls, document: Any) -> Any:
        # Who has configured an index for uploads, and no mode, means that index.
        index, release = document.get("index"), document.get("release", {})
        if isinstance(index, dict) and isinstance(release, dict) and index.get("upload"):
            return {**document, "release": {"mode": "token", **release}}
        return document


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
            f"no address given: pass {option} URL, or set `{field}` in section [index] of {FILE_NAME}",
            code="MW206",
        )
    return address


def choose_mode(given: Mode | None, repository_url: str | None = None) -> Mode:
    """Where releases go: as given, else as `modelwheel.toml` says.

    Args:
        given: The option.
        repository_url: An option with the address of an index, which says that one is meant.
    """
    if given is not None:
        return given
    return "token" if repository_url else load_config().release.mode


def find_catalogue_path(field: Literal["logo", "pictures"], given: Path | None) -> Path | None:
    """The path that an option gave, else the one in `modelwheel.toml`, which is relative to that file."""
    if given is not None:
        return given
    text, path = getattr(load_config().catalogue, field), find_config(Path().absolute())
    return None if text is None or path is None else path.parent / text


def find_repository(given: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The repository on GitHub as OWNER/REPOSITORY: as given, else of `modelwheel.toml`, else of GitHub Actions.

    Raises:
        UsageError: It is something else.
    """
    repository = given or load_config().release.repository or environment.get("GITHUB_REPOSITORY")
    if repository and not _REPOSITORY.fullmatch(repository):
        raise UsageError(
            f"{repository!r} is not a repository on GitHub, such as org/models", code="MW205"
        )
    return repository or None


def require_repository(given: str | None) -> str:
    """Like `find_repository`, for commands that need one.

    Raises:
        UsageError: Nothing names a repository.
    """
    repository = find_repository(given)
    if repository is None:
        raise UsageError(
            "no repository on GitHub given: pass --github-repository OWNER/REPOSITORY, or set "
            f"`repository` in section [release] of {FILE_NAME}; for a package index, pass --mode token",
            code="MW205",
        )
    return repository


def _read(path: Path) -> Config:
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        return Config.model_validate(tomllib.loads(text))
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror or error}", code="MW205"
        ) from None
    except ValidationError as error:
        raise UsageError(
            "\n".join(
                f"{path}:{_line_of(text, problem['loc'])}: {_explain(problem)}"
                for problem in error.errors()
            ),
            code="MW205",
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text", code="MW205") from None
    except RecursionError:
        raise UsageError(f"{path}: is nested too deeply", code="MW205") from None
    except tomllib.TOMLDecodeError as error:
        match = re.fullmatch(r"(.+) \(at line (\d+), column (\d+)\)", str(error))
        where, wrong = (f"{path}:{match[2]}:{match[3]}", match[1]) if match else (path, error)
        raise UsageError(f"{where}: is not valid TOML: {wrong}", code="MW205") from None


def _line_of(text: str, field: Sequence[int | str]) -> int:
    """The line of a field or, if it is not written as `name = value`, of its section; else the first."""
    section, *rest = map(str, field or ("",))
    section_line, inside = 1, ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+\s*([\w-]+)", line):
            inside = header[1]
        key = re.match(r"\s*([\w-]+)\s*=", line)
        if inside == section and rest and key and key[1] == rest[0]:
            return number
        if (header and inside == section) or (not inside and key and key[1] == section):
            section_line = number
    return section_line


_SHOULD = "Input should be"
"""How pydantic's own sentences begin."""


def _explain(problem: ErrorDetails) -> str:
    """One mistake as `index.url: what is wrong`, or `store.upstream[0]: what is wrong`."""
    *parents, name = problem["loc"]
    wrong = problem["msg"]
    if problem["type"] == "extra_forbidden":
        known = list(_fields(parents))
        near = difflib.get_close_matches(str(name), known, n=1)
        wrong = "unknown field. " + (
            f"Did you mean '{near[0]}'?" if near else f"Known here: {', '.join(known)}"
        )
    elif problem["type"] == "string_type":
        wrong = f"must be text in quotation marks, got {problem['input']!r}"
    elif problem["type"] == "tuple_type":
        wrong = f"must be a list, such as [...], got {problem['input']!r}"
    elif problem["type"] == "model_type":
        wrong = f"must be a section: [{name}]"
    elif wrong.startswith(_SHOULD):
        wrong = f"must be{wrong.removeprefix(_SHOULD)}, got {problem['input']!r}"
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
    return f"{place[1:]}: {wrong}"


def _fields(parents: Sequence[int | str]) -> Iterable[str]:
    """The fields of a section, or of the whole file if there are no parents."""
    if not parents:
        return Config.model_fields
    section = Config.model_fields[str(parents[0])].annotation
    assert isinstance(section, type)
    assert issubclass(section, BaseModel)
    return section.model_fields
