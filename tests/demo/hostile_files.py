"""Hostile specs, archives, repositories, wheels and callers: each is given to the command that reads it."""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import stat
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.models.hostile import Victim
from tests.support.described import describe, wheel_files, write_wheel

Run: TypeAlias = Callable[..., str]
"""Runs modelwheel with these arguments; returns its first error, or "" if it ended well."""

Perform: TypeAlias = Callable[[Path, Victim, Run], str]

FULL_COMMIT = "1" * 40


@dataclass(frozen=True)
class FileAttack:
    """A hostile file."""

    name: str
    attempts: str
    run: Perform
    """Writes it into a directory, gives it to a command, and returns what stopped it."""


FILE_ATTACKS: list[FileAttack] = []


def _attack(attempts: str) -> Callable[[Perform], Perform]:
    def register(perform: Perform) -> Perform:
        FILE_ATTACKS.append(FileAttack(perform.__name__, attempts, perform))
        return perform

    return register


def _spec(directory: Path, *lines: str, name: str = "evil.yaml", source: str = "") -> Path:
    """A spec that is harmless but for these lines."""
    path = directory / name
    model = ['model: {name: evil, version: "1.0.0"', "}" if source else ", saved_model: model}"]
    path.write_text("\n".join(["".join(model), source, *lines, ""]), encoding="utf-8")
    return path


# --- specs ----------------------------------------------------------------------------------------


@_attack("a spec has a YAML alias bomb")
def alias_bomb(directory: Path, _: Victim, run: Run) -> str:
    levels = [f"&x{n} [{', '.join([f'*x{n - 1}'] * 9)}]" for n in range(1, 9)]
    bomb = f"package: {{keywords: [&x0 lol, {', '.join(levels)}]}}"
    return run("check", "--spec-only", _spec(directory, bomb))


@_attack("a spec escapes a character beyond Unicode")
def beyond_unicode(directory: Path, _: Victim, run: Run) -> str:
    return run("check", "--spec-only", _spec(directory, r'package: {author: "\UFFFFFFFF"}'))


@_attack("a spec has the compiler write files")
def flag_that_dumps(directory: Path, victim: Victim, run: Run) -> str:
    flag = f"--xla_backend_extra_options=-print-after-all,-ir-dump-directory={victim.directory}"
    return run("check", "--spec-only", _spec(directory, f'compilation: {{xla_flags: ["{flag}"]}}'))


@_attack("a spec's file name is a workflow command")
def name_of_a_spec(directory: Path, _: Victim, run: Run) -> str:
    return run("check", "--spec-only", _spec(directory, "nonsense: 1", name="a\n::error::b.yaml"))


@_attack("a spec publishes a file of the machine as its licence")
def licence_link(directory: Path, victim: Victim, run: Run) -> str:
    (directory / "LICENSE").symlink_to(victim.secret)
    (directory / "model").mkdir()
    return run("check", "--spec-only", _spec(directory, "package: {license_files: [LICENSE]}"))


@_attack("a repository's address runs a command")
def transport_helper(directory: Path, victim: Victim, run: Run) -> str:
    url = f"ext::sh -c 'touch {victim.marker('ext')}'"
    source = f'source: {{git: "{url}", commit: "{FULL_COMMIT}"}}'
    return run("check", _spec(directory, source=source))


# --- archives and repositories ---------------------------------------------------------------------


def _archive(directory: Path, name: str, content: bytes, run: Run) -> str:
    path = directory / name
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    source = f'source: {{archive: "{path.as_uri()}", sha256: "{digest}"}}'
    return run("check", "--json", _spec(directory, source=source))


def _tar(*names: str, link: str = "") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            if link:
                member.type, member.linkname = tarfile.SYMTYPE, link
            archive.addfile(member)
    return file.getvalue()


@_attack("an archive writes beside its directory")
def path_traversal(directory: Path, _: Victim, run: Run) -> str:
    return _archive(directory, "a.tar.gz", _tar("../victim/traversal.marker"), run)


@_attack("an archive links to a file of the machine")
def archive_link(directory: Path, victim: Victim, run: Run) -> str:
    content = _tar("saved_model.pb", link=str(victim.secret))
    return _archive(directory, "a.tar.gz", content, run)


@_attack("an archive of six kilobytes makes 200 000 directories")
def directory_bomb(directory: Path, _: Victim, run: Run) -> str:
    names = [f"{n}/" + "d/" * 507 + "x" for n in range(400)]
    return _archive(directory, "a.tar.gz", _tar(*names), run)


@_attack("an archive of 70 bytes asks for a dictionary of 4 GiB")
def dictionary_bomb(directory: Path, _: Victim, run: Run) -> str:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]
    content = bytearray(lzma.compress(b"x" * 512, lzma.FORMAT_XZ, filters=filters))
    # The size of the dictionary in the block's header (xz file format, 5.3.1), and the header's CRC.
    place = content.index(b"\x21\x01") + 2
    content[place] = 40
    start, end = 12, 12 + (content[12] + 1) * 4
    content[end - 4 : end] = zlib.crc32(content[start : end - 4]).to_bytes(4, "little")
    return _archive(directory, "a.tar.xz", bytes(content), run)


@_attack("a git repository of kilobytes has 10^10 files")
def git_bomb(directory: Path, _: Victim, run: Run) -> str:
    repository = directory / "repository"
    people = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
    variables = {**os.environ, **{f"GIT_{name}": "a@example.org" for name in people}}

    def git(*arguments: str, content: str = "") -> str:
        done = subprocess.run(
            ["git", "-C", repository, *arguments],
            input=content,
            text=True,
            check=True,
            stdout=subprocess.PIPE,
            env=variables,
        )
        return done.stdout.strip()

    repository.mkdir()
    git("init", "--quiet")
    entry = f"100644 blob {git('hash-object', '-w', '--stdin', content='x')}"
    for _level in range(10):
        tree = git("mktree", content="".join(f"{entry}\tn{n}\n" for n in range(10)))
        entry = f"040000 tree {tree}"
    commit = git("commit-tree", "-m", "bomb", entry.split()[-1])
    git("update-ref", "refs/heads/main", commit)
    source = f'source: {{git: "{repository.as_uri()}", commit: "{commit}"}}'
    return run("check", "--json", _spec(directory, source=source))


# --- wheels ---------------------------------------------------------------------------------------


@_attack("a wheel has a member that is marked as encrypted")
def encrypted_member(directory: Path, _: Victim, run: Run) -> str:
    path = write_wheel(directory, wheel_files(describe()))
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        (member, *_rest) = archive.infolist()
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature, member.header_offset) + place] |= 1
    path.write_bytes(content)
    return run("inspect", path)


@_attack("a wheel's manifest names a library that was exchanged")
def exchanged_library(directory: Path, _: Victim, run: Run) -> str:
    files = wheel_files(describe())
    name = next(name for name in files if name.endswith(".so"))
    path = write_wheel(directory, {**files, name: b"\x7fELF of somebody else"})
    return run("inspect", "--replay", path)


@_attack("a wheel installs a file outside its package")
def wheel_traversal(directory: Path, _: Victim, run: Run) -> str:
    path = write_wheel(directory, wheel_files(describe()))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../evil.pth", "import os")
    return run("inspect", path)


@_attack("a wheel has a link to a file of the machine")
def wheel_link(directory: Path, victim: Victim, run: Run) -> str:
    path = write_wheel(directory, wheel_files(describe()))
    member = zipfile.ZipInfo("model_a/link")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(member, str(victim.secret))
    return run("inspect", "--replay", path)
