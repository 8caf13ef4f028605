"""Addresses of models and their pins: what is refused, and how to write it instead.

Messages never repeat a URL, which may contain a secret.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import AfterValidator, Field, StrictStr

from ..fields import HUGGING_FACE_FIX, check_local_path, mistake, one_line

COMMIT_PATTERN = r"^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$"

OBJECT_SCHEMES = ("s3", "gs")
"""Of object stores, whose addresses are `scheme://bucket/key`."""
_DOWNLOADED = ("https", "file", *OBJECT_SCHEMES)

_SECRET = re.compile(r"token|secret|passw|signature|credential|api[_-]?key|^sig$", re.IGNORECASE)
_MAX_SCHEME_LENGTH = 20

# Neither the host nor the path may begin with `-`: ssh would take it for an option
# (CVE-2017-1000117).
_SCP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:(?!/?-)[^\s:]+")
_NO_CREDENTIALS = "Remove them; keep them in git's credential helpers or ~/.netrc"

Address = Annotated[StrictStr, Field(min_length=1, max_length=2048), AfterValidator(one_line)]


def check_url(url: str, schemes: tuple[str, ...]) -> str:
    """A URL of one of the schemes, with a host if it needs one, and without credentials.

    Raises:
        PydanticCustomError: It is not such a URL.
    """
    parts = _split(url)
    if parts.scheme == "hf":
        raise mistake("hf:// addresses are not read", HUGGING_FACE_FIX, code="MW112")
    if parts.scheme not in schemes:
        allowed = " or ".join(f"{scheme}://" for scheme in schemes)
        shown = parts.scheme if len(parts.scheme) < _MAX_SCHEME_LENGTH else "..."
        raise mistake(f"unsupported URL scheme '{shown}://'", f"Use {allowed}", code="MW112")
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    user_allowed = parts.scheme == "ssh"
    if parts.password is not None or (parts.username is not None and not user_allowed):
        raise mistake("the URL contains credentials", _NO_CREDENTIALS, code="MW112")
    if any(_SECRET.search(name) for name in names):
        raise mistake("the URL's query contains credentials", _NO_CREDENTIALS, code="MW112")
    if parts.fragment:
        raise mistake("the URL has a fragment (`#...`)", "Remove it", code="MW112")
    if parts.scheme == "file":
        if parts.hostname not in (None, "localhost"):
            raise mistake(
                "a file URL must not name a host", "Write file:///absolute/path", code="MW112"
            )
    elif not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", parts.hostname or ""):
        raise mistake(
            "the URL names no valid host", f"Write {parts.scheme}://host/path", code="MW112"
        )
    if (parts.username or "").startswith("-"):
        raise mistake("the user name begins with `-`", "Remove it", code="MW112")
    return url


def _split(url: str) -> SplitResult:
    if re.search(r"\s", url) or "\\" in url:
        raise mistake(
            "the URL contains a blank or a backslash", "Write them as %20 and %5C", code="MW112"
        )
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed on demand; a bad one raises here
    except ValueError:
        raise mistake("this is not a valid URL", code="MW112") from None
    return parts


def is_local(address: str) -> bool:
    """Whether the address of a git repository is a plain path on this machine."""
    return "://" not in address and not _SCP.fullmatch(address)


def check_git_address(address: str) -> str:
    """An address that git may be given.

    Raises:
        PydanticCustomError: It is not one.
    """
    if re.match(r"[A-Za-z0-9+.-]*::", address):
        raise mistake(
            "git's transport helpers (`name::`) can run programs", "Use https or ssh", code="MW112"
        )
    if "://" in address:
        return check_url(address, ("https", "ssh", "file"))
    if not is_local(address):
        return address
    if address.startswith("-"):
        raise mistake("the address begins with `-`", "Write ./- for such a directory")
    if ":" in address:
        raise mistake("this is neither a URL, user@host:path nor a plain path", code="MW112")
    return check_local_path(address)


def check_archive_address(address: str) -> str:
    """The URL of an archive.

    Raises:
        PydanticCustomError: It is not a URL that is downloaded, or ends like an archive that is not read.
    """
    checked = _check_downloaded(address, "an archive")
    # The content decides in the end, so that other endings, as of `FILE/content`, say nothing.
    refuse_unread_archive(urlsplit(checked).path)
    return checked


def check_file_address(address: str) -> str:
    """The URL of a file, whose name is the end of its path.

    Raises:
        PydanticCustomError: It is not a URL that is downloaded, or its path ends without a name.
    """
    checked = _check_downloaded(address, "a file")
    check_file_name(name_in_url(checked))
    return checked


def name_in_url(url: str) -> str:
    """The last part of a URL's path, decoded; empty if there is none."""
    return unquote(urlsplit(url).path.rpartition("/")[2])


def check_file_name(name: str) -> str:
    """The name of one file, without directories.

    Raises:
        PydanticCustomError: It is not one, or that of an archive that is not read.
    """
    if not name or "/" in name or "\\" in name or name in (".", "..") or name[0] in "-~":
        raise mistake("this does not name a file", "Write the name as the page lists it")
    one_line(name)
    refuse_unread_archive(name)
    return name


def _check_downloaded(address: str, what: str) -> str:
    if "://" not in address:
        hint = f"Write file:///absolute/path for {what} on this machine"
        raise mistake("this is not a URL", hint, code="MW112")
    checked = check_url(address, _DOWNLOADED)
    parts = urlsplit(checked)
    if parts.scheme in OBJECT_SCHEMES and (parts.query or not parts.path.strip("/")):
        raise mistake("this does not name an object", f"Write {parts.scheme}://bucket/key")
    return checked


def refuse_unread_archive(path: str) -> None:
    """Refuses a name that ends like an archive of a format that is not read.

    Raises:
        PydanticCustomError: It does.
    """
    if match := _UNREAD_ARCHIVE.search(path.lower()):
        hint = "Pack the model again as .tar.gz, .tar.xz or .zip"
        raise mistake(f"'{match[0]}' is not a format of archives that is read", hint, code="MW112")


_UNREAD_ARCHIVE = re.compile(
    r"(\.tar|(\.tar)?\.(bz2|zst|lzma|lz4?|lzo|z|br)|\.(tbz2?|tzst|tlz|7z|rar|cab|iso|dmg))$"
)
"""Endings of archives that no release of modelwheel has read."""

_ARCHIVES = (".tar.gz", ".tgz", ".tar.xz", ".txz", ".zip", ".whl")


def is_archive_name(name: str) -> bool:
    """Whether a file is an archive by its name; `.keras` and `.pt2` are models."""
    return PurePosixPath(name).name.lower().endswith(_ARCHIVES)


def _check_commit(commit: str) -> str:
    hint = "Pin the full 40-digit commit: git rev-parse HEAD"
    if re.fullmatch(COMMIT_PATTERN, commit):
        if not commit.strip("0"):  # git's own name for "no commit"
            raise mistake(
                "the commit is a placeholder of zeros, which no repository has", hint, code="MW110"
            )
        return commit.lower()
    if re.fullmatch(r"[0-9a-fA-F]{4,63}", commit):
        raise mistake(
            f"'{commit}' is a shortened commit, which may become ambiguous", hint, code="MW110"
        )
    raise mistake(f"'{commit}' is a branch or a tag, which may move", hint, code="MW110")


Commit = Annotated[
    StrictStr,
    Field(max_length=256, json_schema_extra={"pattern": COMMIT_PATTERN}),
    AfterValidator(_check_commit),
]
"""A full commit id."""
