"""What a disk may hold after a power cut, from a record of what was written and when it was synced.

As CrashMonkey (Mohan et al., OSDI 2018) and ALICE (Pillai et al., OSDI 2014) do, with what POSIX promises and no more: the
content of a file is on the disk once the file is synced, its name once its directory is. Until then each change of a
directory may be there or not, whatever came before or after it, and content may be missing, be zeros, or end early.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

_ALL_SUBSETS = 6
"""Up to this many changes of directories that are not synced, every subset of them is tried."""


@dataclass
class _Change:
    """One change of a directory: `name` now means `inode`, or nothing; a rename also removes `old`."""

    parent: int
    name: str
    inode: int | None
    old: tuple[int, str] | None = None


@dataclass
class _Disk:
    """Everything below the root, whose number is 0."""

    entries: dict[int, dict[str, int]] = field(default_factory=lambda: {0: {}})
    """What programs see: the names in each directory."""
    content: dict[int, bytearray] = field(default_factory=dict)
    """What programs see: the bytes of each file."""
    synced_entries: dict[int, dict[str, int]] = field(default_factory=lambda: {0: {}})
    synced_content: dict[int, bytes] = field(default_factory=dict)
    changes: list[_Change] = field(default_factory=list)
    """Of directories that are not synced yet."""


@dataclass(frozen=True)
class State:
    """One thing that the disk may hold."""

    files: tuple[tuple[str, bytes], ...]
    """Contents by relative name."""
    marks: frozenset[str]
    """The marks that came before the power cut."""

    def write(self, directory: Path) -> None:
        """Makes the files below a directory."""
        for name, content in self.files:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(content)


def crash_states(record: Path, root: Path, *, without: tuple[str, ...] = ()) -> set[State]:
    """Every state that a power cut may leave at any moment of the record.

    Args:
        record: Written by `Faults.recording`, from an empty directory on.
        root: That directory.
        without: Directories in it whose content does not matter, such as those for temporary files.
    """
    disk, marks, found = _Disk(), frozenset[str](), set[State]()
    numbers = {root.stat().st_ino: 0}
    for line in record.read_text().splitlines():
        kind, *fields = line.split("\t")
        if kind == "mark":
            marks |= {fields[0]}
        else:
            _apply(disk, root, numbers, kind, fields)
        found.update(State(files, marks) for files in _leftovers(disk, without))
    return found


def _apply(disk: _Disk, root: Path, numbers: dict[int, int], kind: str, fields: list[str]) -> None:
    def place(path: str) -> tuple[int, str]:
        parent = 0
        *directories, name = Path(path).relative_to(root).parts
        for each in directories:
            parent = disk.entries[parent][each]
        return parent, name

    match kind, fields:
        case (("create" | "mkdir"), [path, inode]):
            # A new number each time: the system uses those of removed files again.
            number = numbers[int(inode)] = len(disk.entries) + len(disk.content)
            if kind == "mkdir":
                disk.entries[number], disk.synced_entries[number] = {}, {}
            else:
                disk.content[number], disk.synced_content[number] = bytearray(), b""
            _change(disk, _Change(*place(path), number))
        case "truncate", [inode]:
            disk.content[numbers[int(inode)]].clear()
        case "write", [inode, offset, data]:
            content, start = disk.content[numbers[int(inode)]], int(offset)
            content[start : start + len(data) // 2] = bytes.fromhex(data)
        case "rename", [source, target]:
            parent, name = place(source)
            number = disk.entries[parent][name]
            _change(disk, _Change(*place(target), number, (parent, name)))
        case "unlink", [path]:
            _change(disk, _Change(*place(path), None))
        case "sync", [inode]:
            _sync(disk, numbers[int(inode)])
        case _:
            raise AssertionError(kind, fields)


def _change(disk: _Disk, change: _Change) -> None:
    _make(disk.entries, change)
    disk.changes.append(change)


def _make(entries: dict[int, dict[str, int]], change: _Change) -> None:
    if change.old is not None:
        entries[change.old[0]].pop(change.old[1], None)
    if change.inode is None:
        entries[change.parent].pop(change.name, None)
    else:
        entries[change.parent][change.name] = change.inode


def _sync(disk: _Disk, number: int) -> None:
    if number in disk.content:
        disk.synced_content[number] = bytes(disk.content[number])
        return
    for change in [each for each in disk.changes if each.parent == number]:
        _make(disk.synced_entries, change)
        disk.changes.remove(change)


def _leftovers(disk: _Disk, without: tuple[str, ...]) -> Iterator[tuple[tuple[str, bytes], ...]]:
    ignored = {disk.entries[0][name] for name in without if name in disk.entries[0]}
    ignored |= {child for each in ignored for child in disk.entries[each].values()}
    ignored |= {child for each in ignored for child in disk.entries.get(each, {}).values()}
    open_changes = [each for each in disk.changes if each.parent not in ignored]
    for subset in _subsets(open_changes):
        entries = {number: dict(names) for number, names in disk.synced_entries.items()}
        for change in subset:
            _make(entries, change)
        for content in _contents(disk):
            yield tuple(sorted(_walk(entries, content, 0, "", without)))


def _subsets(changes: list[_Change]) -> Iterator[tuple[_Change, ...]]:
    """In the order in which they were made: all subsets, or those that lack or have at most one."""
    count = len(changes)
    sizes = range(count + 1) if count <= _ALL_SUBSETS else (0, 1, count - 1, count)
    for size in sizes:
        yield from combinations(changes, size)


def _contents(disk: _Disk) -> Iterator[dict[int, bytes]]:
    """What is synced, with the rest missing, zero, cut in half, or whole."""
    yield disk.synced_content
    for keep in (lambda seen: bytes(len(seen)), lambda seen: seen[: len(seen) // 2], bytes):
        yield {
            number: bytes(keep(seen)) if disk.synced_content[number] != seen else bytes(seen)
            for number, seen in disk.content.items()
        }


def _walk(
    entries: dict[int, dict[str, int]],
    content: dict[int, bytes],
    number: int,
    prefix: str,
    without: tuple[str, ...],
) -> Iterator[tuple[str, bytes]]:
    for name, child in entries[number].items():
        if child in content:
            yield prefix + name, content[child]
        elif prefix + name not in without:
            yield from _walk(entries, content, child, f"{prefix}{name}/", without)
