"""Where a model comes from: a commit of a git repository, an archive, or a directory; all pinned.

`path` is the directory of a SavedModel, or the one file of a model of another format. Names whose
content can change (branches, tags, short commits) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    PrivateAttr,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    model_validator,
)

from ..util.files import find_checkout
from ..util.urls import redact
from ..util.words import nearest_word, suggest
from .fields import (
    HUGGING_FACE_FIX,
    GivenName,
    LocalPath,
    Mistake,
    RelativePath,
    Section,
    Sha256,
    check_local_path,
    mistake,
    mistakes,
    one_line,
    unique,
)
from .formats import FORMATS, OPTIONS, detect_format

if TYPE_CHECKING:
    from typing_extensions import Self

COMMIT_PATTERN = r"^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$"

_SECRET = re.compile(r"token|secret|passw|signature|credential|api[_-]?key|^sig$", re.IGNORECASE)
_MAX_SCHEME_LENGTH = 20

# Neither the host nor the path may begin with `-`: ssh would take it for an option
# (CVE-2017-1000117).
_SCP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:(?!/?-)[^\s:]+")
_NO_CREDENTIALS = "Remove them; keep them in git's credential helpers or ~/.netrc"


def check_url(url: str, schemes: tuple[str, ...]) -> str:
    """A URL of one of the schemes, with a host if it needs one, and without credentials.

    Messages never repeat the URL, which may contain a secret.

    Raises:
        PydanticCustomError: It is not such a URL.
    """
    parts = _split(url)
    if parts.scheme == "hf":
        raise mistake("hf:// addresses are not read", HUGGING_FACE_FIX)
    if parts.scheme not in schemes:
        allowed = " or ".join(f"{scheme}://" for scheme in schemes)
        shown = parts.scheme if len(parts.scheme) < _MAX_SCHEME_LENGTH else "..."
        raise mistake(f"unsupported URL scheme '{shown}://'", f"Use {allowed}")
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    user_allowed = parts.scheme == "ssh"
    if parts.password is not None or (parts.username is not None and not user_allowed):
        raise mistake("the URL contains credentials", _NO_CREDENTIALS)
    if any(_SECRET.search(name) for name in names):
        raise mistake("the URL's query contains credentials", _NO_CREDENTIALS)
    if parts.fragment:
        raise mistake("the URL has a fragment (`#...`)", "Remove it")
    if parts.scheme == "file":
        if parts.hostname not in (None, "localhost"):
            raise mistake("a file URL must not name a host", "Write file:///absolute/path")
    elif not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", parts.hostname or ""):
        raise mistake("the URL names no valid host", f"Write {parts.scheme}://host/path")
    if (parts.username or "").startswith("-"):
        raise mistake("the user name begins with `-`", "Remove it")
    return url


def _split(url: str) -> SplitResult:
    if re.search(r"\s", url) or "\\" in url:
        raise mistake("the URL contains a blank or a backslash", "Write them as %20 and %5C")
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed on demand; a bad one raises here
    except ValueError:
        raise mistake("this is not a valid URL") from None
    return parts


def is_local(address: str) -> bool:
    """Whether the address of a git repository is a plain path on this machine."""
    return "://" not in address and not _SCP.fullmatch(address)


def _check_git_address(address: str) -> str:
    if re.match(r"[A-Za-z0-9+.-]*::", address):
        raise mistake("git's transport helpers (`name::`) can run programs", "Use https or ssh")
    if "://" in address:
        return check_url(address, ("https", "ssh", "file"))
    if not is_local(address):
        return address
    if address.startswith("-"):
        raise mistake("the address begins with `-`", "Write ./- for such a directory")
    if ":" in address:
        raise mistake("this is neither a URL, user@host:path nor a plain path")
    return check_local_path(address)


def _check_archive_address(address: str) -> str:
    if "://" not in address:
        hint = "Write file:///absolute/path for an archive on this machine"
        raise mistake("this is not a URL", hint)
    checked = check_url(address, ("https", "file"))
    # The content decides in the end, so that other endings, as of `FILE/content`, say nothing.
    if found := _UNREAD_ARCHIVE.search(urlsplit(checked).path.lower()):
        hint = "Pack the model again as .tar.gz, .tar.xz or .zip"
        raise mistake(f"'{found[0]}' is not a format of archives that is read", hint)
    return checked


_UNREAD_ARCHIVE = re.compile(
    r"(\.tar|(\.tar)?\.(bz2|zst|lzma|lz4?|lzo|z|br)|\.(tbz2?|tzst|tlz|7z|rar|cab|iso|dmg))$"
)
"""Endings of archives that no release of modelwheel has read."""


def _check_commit(commit: str) -> str:
    hint = "Pin the full 40-digit commit: git rev-parse HEAD"
    if re.fullmatch(COMMIT_PATTERN, commit):
        if not commit.strip("0"):  # git's own name for "no commit"
            raise mistake("the commit is a placeholder of zeros, which no repository has", hint)
        return commit.lower()
    if re.fullmatch(r"[0-9a-fA-F]{4,63}", commit):
        raise mistake(f"'{commit}' is a shortened commit, which may become ambiguous", hint)
    raise mistake(f"'{commit}' is a branch or a tag, which may move", hint)


_Address = Annotated[StrictStr, Field(min_length=1, max_length=2048), AfterValidator(one_line)]


_GraphName = Annotated[StrictStr, Field(min_length=1, max_length=1024), AfterValidator(one_line)]
_Constant: TypeAlias = StrictBool | StrictInt | StrictFloat


def _from_pairs(value: Any) -> Any:
    """What `OrderedTensors` is as JSON, as a mapping again."""
    return dict(value) if isinstance(value, list) else value


# The order counts, and digests and keys are made of JSON with sorted keys.
_AS_PAIRS = PlainSerializer(
    lambda tensors: [list(pair) for pair in tensors.items()], when_used="json"
)
OrderedTensors: TypeAlias = Annotated[Mapping[str, str], BeforeValidator(_from_pairs), _AS_PAIRS]
"""Tensors by name; pairs in JSON."""
_Tensors: TypeAlias = Annotated[Mapping[GivenName, _GraphName], Field(max_length=1024), _AS_PAIRS]


def _check_format(name: str) -> str:
    if name not in FORMATS:
        raise mistake(f"'{name}' is not a format of models", suggest(name, FORMATS))
    return name


_FormatName = Annotated[
    StrictStr, AfterValidator(_check_format), Field(json_schema_extra={"enum": list(FORMATS)})
]


# What `tf.train.Saver` appends to the name that it is given: one file or several for each of its two
# versions (tensorflow/core/util/tensor_bundle/naming.cc and tensor_slice_util).
_CHECKPOINT_PARTS = r"(\.index|\.data-\d{5}-of-\d{5}|-\d{5}-of-\d{5})?"


@dataclass(frozen=True)
class ExtraFile:
    """A file that a spec names in addition to the model, such as the samples for its verification.

    In the fetched tree it is at the top, by its base name.
    """

    path: str
    """From where `path` of the source begins; of a checkpoint, what TensorFlow calls its prefix."""
    is_checkpoint: bool = False
    is_reference: bool = False
    """Whether the model refers to it, and not the spec."""

    def matches(self, name: str) -> bool:
        """Whether a file is this one, or one of the files of this checkpoint."""
        if not self.is_checkpoint:
            return name == self.path
        return re.fullmatch(re.escape(self.path) + _CHECKPOINT_PARTS, name) is not None

    def __str__(self) -> str:
        return f"{'checkpoint' if self.is_checkpoint else 'file'} {self.path!r}"


class _ModelSource(Section):
    """Common to all kinds of sources."""

    path: RelativePath = Field(
        default=".", description="The model: a directory or a file, relative to the source's root."
    )
    format: _FormatName | None = Field(
        default=None, description="Format of the model. Omitted: known by its name."
    )
    tags: Annotated[tuple[_GraphName, ...], Field(max_length=16), AfterValidator(unique)] = Field(
        default=(),
        description="SavedModel: the tags of the graph to use, if it has several.",
        examples=[["serve"]],
    )
    feeds: _Tensors = Field(
        default_factory=dict,
        description="GraphDef: tensors of the graph by the names of the inputs.",
        examples=[{"image": "input:0"}],
    )
    fetches: _Tensors = Field(
        default_factory=dict,
        description="GraphDef: tensors of the graph by the names of the outputs.",
        examples=[{"probabilities": "output/Softmax:0"}],
    )
    constants: Annotated[Mapping[GivenName, _Constant], Field(max_length=1024)] = Field(
        default_factory=dict,
        description="GraphDef, ONNX: values of inputs that become constants.",
        examples=[{"keras_learning_phase": False}],
    )
    config: RelativePath | None = Field(
        default=None,
        description="GraphDef: a tf2xla Config, text or binary, that names feeds and fetches.",
    )
    checkpoint: RelativePath | None = Field(
        default=None, description="GraphDef: prefix of the checkpoint that has the variables."
    )
    freeze_saver: RelativePath | None = Field(
        default=None,
        description="GraphDef: a SaverDef, text or binary, that says which of the graph's savers restores the checkpoint.",
    )

    _directory: Path = PrivateAttr(default=Path())
    _extras: tuple[ExtraFile, ...] = PrivateAttr(default=())
    _held: str = PrivateAttr(default="")

    @property
    def extras(self) -> tuple[ExtraFile, ...]:
        """The files that are fetched with the model."""
        own = [ExtraFile(self.config)] if self.config else []
        if self.checkpoint:
            own.append(ExtraFile(self.checkpoint, is_checkpoint=True))
        if self.freeze_saver:
            own.append(ExtraFile(self.freeze_saver))
        return (*own, *self._extras)

    def with_extras(self, *extras: ExtraFile) -> Self:
        """The same source, with files that are fetched in addition to the model."""
        extended = self.model_copy()
        extended._extras = (*self._extras, *extras)
        return extended

    def holding(self, file: str) -> Self:
        """The same source, whose directory holds the model in one file; empty if it does not."""
        held = self.model_copy()
        held._held = file
        return held

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        found = self.model_format
        for option in OPTIONS:
            if option in self.model_fields_set and option not in FORMATS[found].options:
                having = [name for name, row in FORMATS.items() if option in row.options]
                wrong = f"{option} is not an option of models of the format {found}"
                hint = f"Remove it; it is for {' and '.join(having)}"
                raise mistakes([Mistake(wrong, hint, (option,))])
        if self.freeze_saver and not self.checkpoint:
            wrong = "a saver restores a checkpoint, and there is none"
            raise mistake(wrong, "Add checkpoint or remove this", ("freeze_saver",))
        return self

    @property
    def subdirectory(self) -> str:
        """`path`, but empty for the root."""
        return "" if self.path == "." else self.path

    @property
    def model_format(self) -> str:
        """The format's name in `FORMATS`, given or known by the model's name."""
        return self.format or detect_format(self._held or self.path)

    @property
    def file_name(self) -> str:
        """The name of the model's file in the tree, if the model is a file."""
        return PurePosixPath(self._held or self.path).name

    @property
    def is_file(self) -> bool:
        """Whether the model is a file, as most formats have it, and not a directory."""
        return bool(FORMATS[self.model_format].suffixes)

    @property
    def format_options(self) -> dict[str, Any]:
        """The options that the spec gives, as JSON holds them; files by their names in the tree."""
        given = self.model_dump(mode="json", include=set(OPTIONS), exclude_defaults=True)
        for name in {"config", "checkpoint", "freeze_saver"} & given.keys():
            given[name] = PurePosixPath(given[name]).name
        return given

    def resolve(self, directory: Path) -> Self:
        """The same source, with its relative paths below `directory`, where the spec is."""
        resolved = self.model_copy()
        resolved._directory = directory
        return resolved


class GitSource(_ModelSource):
    """A directory or file of a git repository at one commit."""

    git: Annotated[_Address, AfterValidator(_check_git_address)] = Field(
        description="The repository: https://, ssh://, file://, user@host:path, or a path relative "
        "to the spec file. Credentials are refused.",
        examples=["https://github.com/cms-externals/cms-tfaot.git"],
    )
    commit: Annotated[StrictStr, Field(max_length=256), AfterValidator(_check_commit)] = Field(
        description="The full commit id, 40 (or, for SHA-256 repositories, 64) hexadecimal digits.",
        examples=["df4bfd35dfed51d7c6ff0367ebc78093dfcc7d1d"],
        json_schema_extra={"pattern": COMMIT_PATTERN},
    )
    sha256: Sha256 | None = Field(
        default=None,
        description="SHA-256 of the model's tree: names and content of all its files.",
    )

    @property
    def address(self) -> str:
        """The repository as git takes it."""
        return str(self._directory / self.git) if is_local(self.git) else self.git

    def provenance(self, tree_sha256: str) -> dict[str, str]:
        """Where a model with this tree hash comes from, without credentials and local paths."""
        return {
            "kind": "git",
            # Not `address`, which may contain a path of this machine.
            "url": redact(self.git),
            "path": self.subdirectory,
            "tree_sha256": tree_sha256,
            "commit": self.commit,
        }

    def __str__(self) -> str:
        return f"{redact(self.address)} at {self.commit}{_shown(self.subdirectory)}"


class ArchiveSource(_ModelSource):
    """A directory or file of a downloaded archive."""

    archive: Annotated[_Address, AfterValidator(_check_archive_address)] = Field(
        description="URL of the archive: https:// or file://.",
        examples=["https://example.org/model.tar.gz"],
    )
    sha256: Sha256 = Field(
        description="SHA-256 of the archive file.", examples=["0123456789abcdef" * 4]
    )

    def provenance(self, tree_sha256: str) -> dict[str, str]:
        """Where a model with this tree hash comes from, without credentials."""
        return {
            "kind": "archive",
            "url": redact(self.archive),
            "path": self.subdirectory,
            "tree_sha256": tree_sha256,
            "sha256": self.sha256,
        }

    def __str__(self) -> str:
        return f"{redact(self.archive)}{_shown(self.subdirectory)}"


class DirectorySource(_ModelSource):
    """A directory on this machine, or something in it."""

    directory: LocalPath = Field(
        description="The SavedModel's directory, or one that `path` begins in; absolute or relative to "
        "the spec file.",
        examples=["../data/saved_model"],
    )
    sha256: Sha256 | None = Field(
        default=None,
        description="SHA-256 of the model's tree: names and content of all its files.",
    )

    @classmethod
    def at(cls, directory: Path, path: str = ".") -> DirectorySource:
        """A model that the caller names, without the checks of a spec."""
        return cls.model_construct(directory=str(directory), path=path)

    def resolve(self, directory: Path) -> Self:
        resolved = super().resolve(directory)
        # A file is taken where its directory is expected.
        if not self.subdirectory and resolved.root.is_file():
            path = PurePosixPath(Path(self.directory).as_posix())
            resolved = resolved.model_copy(
                update={"directory": str(path.parent), "path": path.name}
            )
        return resolved

    @property
    def is_own(self) -> bool:
        """Whether errors may show what is in it: the user typed it, or it is in the spec's checkout.

        A spec may name any directory of the machine; its author need not be allowed to list it.
        """
        # Only `resolve`, which every spec goes through, sets the directory.
        if self._directory == Path():
            return True
        home = self._directory.resolve()
        checkout = find_checkout(home) or home
        return all(path.resolve().is_relative_to(checkout) for path in (self.root, self.location))

    @property
    def root(self) -> Path:
        """The directory, with the spec's directory before a relative path."""
        return self._directory / self.directory

    @property
    def location(self) -> Path:
        """The SavedModel's directory, or the model's file."""
        return self.root / self.path if self.subdirectory else self.root

    def provenance(self, tree_sha256: str) -> dict[str, str]:
        """The tree hash alone: the path means nothing on other machines."""
        return {"kind": "directory", "tree_sha256": tree_sha256}

    def __str__(self) -> str:
        return str(self.location)


AnySource: TypeAlias = GitSource | ArchiveSource | DirectorySource


def _shown(subdirectory: str) -> str:
    return f", {subdirectory!r}" if subdirectory else ""


SOURCE_KINDS: Mapping[str, type[Section]] = {
    "git": GitSource,
    "archive": ArchiveSource,
    "directory": DirectorySource,
}
"""The key that decides the kind of a source, and its class."""


def source_tag(kind: str) -> str:
    """How validation errors mark the kind of a source; never a key of a spec."""
    return f"<{kind}>"


def _kind_of(value: Any) -> str | None:
    for kind, section in SOURCE_KINDS.items():
        if isinstance(value, section) or (isinstance(value, Mapping) and kind in value):
            return source_tag(kind)
    return None


def _check_kind(value: Any) -> Any:
    *others, last = SOURCE_KINDS
    kinds = f"{', '.join(others)} or {last}"
    if isinstance(value, tuple(SOURCE_KINDS.values())):
        return value
    if not isinstance(value, Mapping):
        raise mistake("must be a mapping", f"Begin it with {kinds}")
    found = [kind for kind in SOURCE_KINDS if kind in value]
    if len(found) > 1:
        wrong = f"has {' and '.join(found)}, but a model has one source"
        raise mistake(wrong, "Keep one of them")
    if not found:
        near = [(key, nearest_word(str(key), SOURCE_KINDS)) for key in value]
        typos = [f"Did you mean '{kind}' instead of '{key}'?" for key, kind in near if kind]
        raise mistake(f"needs one of {kinds}", typos[0] if typos else "")
    return value


Source: TypeAlias = Annotated[
    Annotated[GitSource, Tag(source_tag("git"))]
    | Annotated[ArchiveSource, Tag(source_tag("archive"))]
    | Annotated[DirectorySource, Tag(source_tag("directory"))],
    Discriminator(_kind_of),
    BeforeValidator(_check_kind),
]
