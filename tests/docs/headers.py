"""The pages of the C and the C++ interface, from the comments in the headers that wheels have."""

from __future__ import annotations

import re
import subprocess
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clang.cindex import AccessSpecifier, CursorKind, Index

_TEMPLATE = Path(__file__).parents[2] / "wheel_template"
_INCLUDES = tuple(_TEMPLATE / part / "include" for part in ("common", "model", "pybind11"))

_C = """\
# C interface

What `#include <model_NAME.h>` brings: the table of functions that every model has. `model_NAME_api()` returns it, and each of its members is
also a function of its own, such as `model_NAME_create`. [From C and C++](../c-and-cpp.md#c-and-c) has an example.
"""
_CPP = """\
# C++ interface

What `#include <model_NAME.hpp>` brings. A model's header derives a class from `modelwheel::Model` that knows the names and types of its
tensors. [From C and C++](../c-and-cpp.md#c-and-c) has an example.
"""
_HEADERS = {
    "c": (_C, ("modelwheel/abi.h",)),
    "cpp": (
        _CPP,
        tuple(
            f"modelwheel/{name}.hpp"
            for name in (
                *("model", "views", "buffer", "lengths", "thread_pool", "library"),
                "compiled_function",
            )
        ),
    ),
}
"""For each page its beginning, and its headers."""

_TYPES = (CursorKind.STRUCT_DECL, CursorKind.CLASS_DECL, CursorKind.CLASS_TEMPLATE)
_CALLS = (
    CursorKind.FUNCTION_DECL,
    CursorKind.FUNCTION_TEMPLATE,
    CursorKind.CXX_METHOD,
    CursorKind.CONSTRUCTOR,
    CursorKind.CONVERSION_FUNCTION,
)
_NAMES = (CursorKind.TYPEDEF_DECL, CursorKind.TYPE_ALIAS_DECL)
_PARTS = (*_CALLS, *_NAMES, CursorKind.FIELD_DECL, CursorKind.ENUM_CONSTANT_DECL)
_INTERNAL = ("detail", "internal")
"""Namespaces that are nobody's interface."""


def pages() -> dict[str, str]:
    """The text of each page, by its name."""
    return {name: _page(*found) for name, found in _HEADERS.items()}


def _page(beginning: str, headers: Sequence[str]) -> str:
    language = "c" if headers[0].endswith(".h") else "c++"
    parts = [beginning]
    for header in headers:
        path = next(top / header for top in _INCLUDES if (top / header).exists())
        unit = _parse(path, language)
        title, _, rest = _first_comment(path).partition(" - ")
        parts += [f"## `{title}`", rest, *_declarations(unit.cursor, path, language)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _parse(path: Path, language: str) -> Any:
    """The translation unit of a header alone."""
    standard = "c99" if language == "c" else "c++17"
    arguments = [
        *("-x", language, f"-std={standard}", "-fparse-all-comments"),
        *(f"-I{top}" for top in _INCLUDES),
        *(f"-isystem{top}" for top in _system_includes(language)),
    ]
    unit = Index.create().parse(str(path), args=arguments)
    errors = [one.spelling for one in unit.diagnostics if one.severity >= one.Error]
    if errors:
        raise ValueError(f"{path}: {errors[0]}")
    return unit


def _system_includes(language: str) -> list[str]:
    """Where the compiler of this machine has its own headers, as it prints that."""
    said = subprocess.run(
        ["c++", "-E", "-v", "-x", language, "-"],
        input="",
        text=True,
        capture_output=True,
        check=True,
    ).stderr
    found = said.partition("search starts here:\n#include <...> search starts here:\n")[2]
    return found.partition("End of search list")[0].split()


def _declarations(cursor: Any, path: Path, language: str) -> Iterator[str]:
    """What a scope declares in one header, in its order."""
    for child in cursor.get_children():
        if child.location.file is None or child.location.file.name != str(path):
            continue
        if child.kind == CursorKind.NAMESPACE:
            if child.spelling not in _INTERNAL:
                yield from _declarations(child, path, language)
        elif child.kind in (*_TYPES, CursorKind.ENUM_DECL):
            if child.is_definition():
                yield f"### `{child.spelling}`"
                yield _text(child)
                yield _members(child)
        elif child.kind in (*_CALLS, *_NAMES) and not _repeats(child):
            yield f"### `{child.spelling}`"
            yield f"```{language}\n{_declared(child)};\n```"
            yield _text(child)


def _repeats(cursor: Any) -> bool:
    """Whether a typedef only gives a struct or enum its own name, or a function is one of a class."""
    inner = [child for child in cursor.get_children() if child.is_definition()]
    return any(child.spelling == cursor.spelling for child in inner)


def _members(cursor: Any) -> str:
    """A list of the public members of a type, each with its comment if it has one."""
    shown = (AccessSpecifier.PUBLIC, AccessSpecifier.INVALID, AccessSpecifier.NONE)
    lines = []
    for child in cursor.get_children():
        if child.kind in _PARTS and child.access_specifier in shown:
            declared = " ".join(_declared(child).split())
            text = textwrap.indent(_text(child), "  ").strip()
            lines.append(f"- `{declared}`" + (f": {text}" if text else ""))
    return "\n".join(lines)


def _declared(cursor: Any) -> str:
    """The declaration as it is in the header, without a body."""
    start, end = cursor.extent.start, cursor.extent.end
    content = Path(start.file.name).read_bytes()[start.offset : end.offset].decode()
    if cursor.kind not in _CALLS:
        return content
    name = cursor.spelling.partition("<")[0]
    depth, place = 0, 0
    for place in range(content.index(name) + len(name), len(content)):
        depth += {"(": 1, ")": -1}.get(content[place], 0)
        if depth == 0 and content[place] == ")":
            break
    after = re.match(r"( const)?( noexcept)?", content[place + 1 :])
    assert after is not None
    return content[: place + 1] + after[0]


def _text(cursor: Any) -> str:
    """The comment of a declaration as Markdown."""
    return _plain(cursor.raw_comment or "")


def _first_comment(path: Path) -> str:
    """What a header says about itself."""
    text = path.read_text(encoding="utf-8")
    found = re.match(r"/\*.*?\*/|(//[^\n]*\n)+", text, re.DOTALL)
    assert found is not None
    return _plain(found[0])


def _plain(comment: str) -> str:
    lines = re.sub(r"^/\*+<?|\*/$", "", comment.strip()).split("\n")
    stripped = [re.sub(r"^\s*(\*|//[/!]?<?) ?", "", line) for line in lines]
    return _with_code(stripped).strip()


def _with_code(lines: Sequence[str]) -> str:
    """Lines with blocks of code, which comments indent by two spaces, indented by four."""
    return "\n".join(f"  {line}" if line.startswith("  ") else line for line in lines)
