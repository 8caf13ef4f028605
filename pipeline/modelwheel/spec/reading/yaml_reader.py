"""YAML as a document of plain values, without YAML's surprises.

PyYAML's parser delivers events with their positions; they are interpreted here by the core schema of
YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema), so that `no` and `on` stay text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from ...util.text import one_line
from .document import MAX_DEPTH, Document, UnreadableError
from .problems import KeyPath, Position

_Scalar: TypeAlias = str | int | float | bool | None

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# `010` is 8 in YAML 1.1 and 10 in YAML 1.2, so it stays text.
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "false": False,
}
# As in the JSON reader; here, what is longer is text.
_MAX_NUMBER_LENGTH = 40

_MAX_OPEN = 200

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS: dict[str, Callable[[_Scalar], bool]] = {
    f"{_TAG}str": lambda value: True,  # noqa: ARG005
    f"{_TAG}null": lambda value: value is None,
    f"{_TAG}bool": lambda value: isinstance(value, bool),
    f"{_TAG}int": lambda value: type(value) is int,
    f"{_TAG}float": lambda value: type(value) in (int, float),
}

_SECOND_COLON = "a second colon in one line"
_INDENTED = "the indentation does not fit the lines above"

_SYNTAX = (
    ("mapping values are not allowed", _SECOND_COLON, "Quote the text around it"),
    (r"character '\t'", "a tab indents the line", "Indent with spaces"),
    ("expected <block end>", _INDENTED, "Align it with them"),
    ("could not find expected ':'", "a key has no colon", "Write `key: value`"),
    ("unexpected end of stream", "a quotation mark is not closed", "Add the closing one"),
    ("expected ',' or ']'", "the list is not closed", "Add `]` or the missing comma"),
    ("expected ',' or '}'", "the mapping is not closed", "Add `}` or the missing comma"),
)
"""PyYAML's messages for common slips, and ours with a hint."""


# PyYAML's Python scanner passes escapes beyond Unicode to `chr` (PyYAML issue 634).
_REFUSED = (yaml.YAMLError, ValueError, OverflowError)


def read_into(document: Document, text: str) -> None:
    """Fills `document` from YAML text.

    Raises:
        UnreadableError: The text is not YAML, or not one document that is a mapping.
    """
    _require_few_open(text)
    try:
        _Reader(document, yaml.parse(text, Loader=_quick_loader())).read()
    except _REFUSED:
        # The C parser words its errors differently; the Python one is always there.
        try:
            for _event in yaml.parse(text, Loader=yaml.SafeLoader):
                pass
        except yaml.YAMLError as error:
            raise _syntax_error(error, text) from None
        except _REFUSED:
            wrong = "is not valid YAML: an escape (`\\U...`) stands for no character of Unicode"
            raise UnreadableError(Position(1, 1), (), wrong, "Write the character itself") from None
        raise UnreadableError(Position(1, 1), (), "is not valid YAML") from None


def _require_few_open(text: str) -> None:
    """Refuses very many open brackets before PyYAML's scanner, which looks at all of them for each token."""
    depth = 0
    # Also those in quoted text: no sentence leaves hundreds of them open.
    for match in re.finditer(r"[\[\]{}]", text):
        depth = depth + 1 if match.group() in "[{" else max(0, depth - 1)
        if depth > _MAX_OPEN:
            before = text[: match.start()]
            position = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
            wrong = f"nested more than {MAX_DEPTH} levels deep"
            raise UnreadableError(position, (), wrong, "No spec needs that: flatten it")


def _quick_loader() -> Any:
    return yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


def _syntax_error(error: yaml.YAMLError, text: str) -> UnreadableError:
    problem = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if "unexpected end of stream" in problem:
        mark = getattr(error, "context_mark", None) or mark  # where the quotation began
    position = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
    for theirs, ours, hint in _SYNTAX:
        if theirs in problem:
            if ours in (_SECOND_COLON, _INDENTED) and (
                missing_colon := _without_colon(text.splitlines(), position)
            ):
                return missing_colon
            return UnreadableError(position, (), f"is not valid YAML: {ours}", hint)
    return UnreadableError(position, (), f"is not valid YAML: {problem}")


def _without_colon(lines: Sequence[str], position: Position) -> UnreadableError | None:
    """The mistake, if it is not a second colon that PyYAML stops at, but the first one after a line without any."""
    here = lines[position.line - 1][: position.column - 1] if position.line <= len(lines) else ""
    if re.search(r":(\s|$)", here):
        return None
    before = (
        (number, lines[number - 1].split(" #")[0]) for number in range(position.line - 1, 0, -1)
    )
    for number, line in before:
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        # A list's `- x` has no key.
        key = re.match(r"[\w.]+[\w.-]*", word)
        if key is None or re.search(r":(\s|$)", word):
            return None
        column = line.index(key[0]) + len(key[0]) + 1
        wrong = f"is not valid YAML: a colon is missing after {one_line(key[0])!r}"
        return UnreadableError(Position(number, column), (), wrong, f"Write `{one_line(key[0])}:`")
    return None


class _Reader:
    def __init__(self, document: Document, events: Iterator[Event]) -> None:
        self.document = document
        self.events = events

    def read(self) -> None:
        root: Any = None
        documents = 0
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    hint = "Keep one document to a file, without a second `---`"
                    raise UnreadableError(
                        _start(event), (), "a second YAML document", hint, code="MW107"
                    )
            elif isinstance(event, NodeEvent):
                root = self._node(event, ())
        if documents == 0:
            raise UnreadableError(Position(1, 1), (), "the file is empty")
        if not isinstance(root, dict):
            wrong = "the file must be a mapping of keys to values at its top"
            raise UnreadableError(self.document.position(()), (), wrong, "Begin with `model:`")
        self.document.values = root

    def _node(self, event: Event, at: KeyPath) -> Any:
        """The value of a node; its first event has been taken from the stream."""
        position = _start(event)
        self.document.nodes.setdefault(at, position)
        # Never followed: ten lines of aliases can stand for billions of values.
        if isinstance(event, AliasEvent):
            wrong = f"the alias `*{event.anchor}` repeats another value"
            self.document.report(position, at, wrong, "Write the value out here")
            return None
        assert isinstance(event, NodeEvent)
        if event.anchor is not None:
            wrong = f"the anchor `&{event.anchor}` names a value for reuse"
            self.document.note(position, at, wrong, "Remove it; specs are written out in full")
        if isinstance(event, ScalarEvent):
            return self._scalar(event, at)
        assert isinstance(event, CollectionStartEvent)
        self.document.check_depth(position, at)
        if isinstance(event, MappingStartEvent):
            self._check_tag(event, at, f"{_TAG}map")
            return self._mapping(at)
        assert isinstance(event, SequenceStartEvent)
        self._check_tag(event, at, f"{_TAG}seq")
        return self._sequence(at)

    def _sequence(self, at: KeyPath) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.events), SequenceEndEvent):
            items.append(self._node(event, (*at, len(items))))
        return items

    def _mapping(self, at: KeyPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(event := next(self.events), MappingEndEvent):
            key = self._key(event, at)
            entry = (*at, key)
            self.document.keys.setdefault(entry, _start(event))
            value = self._node(next(self.events), entry)
            self.document.add_entry(mapping, entry, _start(event), value)
        return mapping

    def _key(self, event: Event, parent: KeyPath) -> str:
        position = _start(event)
        if not isinstance(event, ScalarEvent):
            wrong = "a key must be plain text, not a list, a mapping or an alias"
            raise UnreadableError(position, parent, wrong, "Write `key: value`")
        at = (*parent, event.value)
        if event.anchor is not None or event.tag is not None:
            self.document.note(position, at, "a key must not have an anchor or a tag", "Remove it")
        elif event.implicit[0] and event.value == "<<":
            wrong = "the merge key copies another mapping"
            self.document.report(position, at, wrong, "Write its entries out here")
        elif event.implicit[0] and not isinstance(_resolve(event.value), str):
            wrong = f"the key {event.value or 'null'} must be text"
            self.document.report(position, at, wrong, f'Quote it: "{event.value}"')
        return self.document.add_text(position, at, event.value)

    def _scalar(self, event: ScalarEvent, at: KeyPath) -> _Scalar:
        self._check_tag(event, at, *_SCALAR_TAGS)
        is_text = event.tag in ("!", f"{_TAG}str") or (event.tag is None and not event.implicit[0])
        if is_text or len(event.value) > _MAX_NUMBER_LENGTH:
            return self.document.add_text(_start(event), at, event.value)
        value = _resolve(event.value)
        if isinstance(value, str):
            self.document.add_text(_start(event), at, value)
        else:
            self.document.texts.setdefault(at, event.value)
        if event.tag in _SCALAR_TAGS and not _SCALAR_TAGS[event.tag](value):
            wrong = f"'{event.value}' is not a value of its tag !!{event.tag.removeprefix(_TAG)}"
            self.document.report(_start(event), at, wrong, "Remove the tag")
        return value

    def _check_tag(
        self, event: ScalarEvent | CollectionStartEvent, at: KeyPath, *allowed: str
    ) -> None:
        if event.tag is not None and event.tag not in ("!", *allowed):
            tag = event.tag.replace(_TAG, "!!")
            wrong = f"the tag `{tag}` is not allowed"
            self.document.report(_start(event), at, wrong, "Remove it; values are plain data")


def _resolve(text: str) -> _Scalar:
    """The value of an unquoted word: null, a boolean, a number or else text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and not _LEADING_ZERO.fullmatch(text):
        return float(text)
    return text


def _start(event: Event) -> Position:
    mark = event.start_mark
    assert mark is not None  # both parsers set it
    return Position(mark.line + 1, mark.column + 1)
