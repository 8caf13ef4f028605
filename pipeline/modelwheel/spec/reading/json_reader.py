r"""JSON (RFC 8259) with the position of every key and value, which the standard library does not keep.

The YAML reader cannot take its place, although JSON is nearly YAML: `json.dumps` writes characters
beyond U+FFFF as two escapes (`\ud83d\ude00`), which YAML refuses; PyYAML without libyaml refuses
tabs between values; and trailing commas and comments, which no other JSON tool reads, would pass.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .document import Document, UnreadableError
from .problems import KeyPath, Position

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*")
# int() of very many digits is slow, and CPython refuses more than 4300 (CVE-2020-10735).
_MAX_NUMBER_LENGTH = 40


def read_into(document: Document, text: str) -> None:
    """Fills `document` from JSON text.

    Raises:
        UnreadableError: The text is not JSON, or not an object.
    """
    reader = _Reader(document, text)
    reader.skip_space()
    if reader.index == len(text):
        raise UnreadableError(Position(1, 1), (), "the file is empty")
    root = reader.value(())
    reader.skip_space()
    if reader.index != len(text):
        raise reader.error("something follows the closing brace", "Remove it")
    if not isinstance(root, dict):
        wrong = "the file must be a mapping of keys to values at its top"
        raise UnreadableError(document.position(()), (), wrong, 'Begin with `{"model": {`')
    document.values = root


class _Reader:
    def __init__(self, document: Document, text: str) -> None:
        self.document = document
        self.text = text
        self.index = 0
        # Python's decoder accepts NaN and Infinity, which RFC 8259 does not have.
        self.decoder = json.JSONDecoder(parse_constant=self._refuse_constant)
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.line = 0

    def position(self) -> Position:
        """The position of the next character; reading only moves forward."""
        while self.line + 1 < len(self.line_starts) and (
            self.line_starts[self.line + 1] <= self.index
        ):
            self.line += 1
        return Position(self.line + 1, self.index - self.line_starts[self.line] + 1)

    def error(self, wrong: str, hint: str = "") -> UnreadableError:
        return UnreadableError(self.position(), (), f"is not valid JSON: {wrong}", hint)

    def skip_space(self) -> None:
        match = _SPACE.match(self.text, self.index)
        assert match is not None  # the expression matches the empty string
        self.index = match.end()

    def value(self, at: KeyPath) -> Any:
        self.skip_space()
        position = self.position()
        self.document.nodes.setdefault(at, position)
        start = self.text[self.index : self.index + 1]
        if start in ("{", "["):
            self.document.check_depth(position, at)
            return self._object(at) if start == "{" else self._array(at)
        begin = self.index
        value = self._scalar()
        if isinstance(value, str):
            return self.document.add_text(position, at, value)
        self.document.texts.setdefault(at, self.text[begin : self.index])
        return value

    def _object(self, at: KeyPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        self.index += 1
        while not self._closes("}", first=not mapping):
            position = self.position()
            key = self._scalar() if self._next_is('"') else None
            if not isinstance(key, str):
                raise self.error("a key in quotation marks is expected here")
            entry = (*at, key)
            self.document.add_text(position, entry, key)
            self.document.keys.setdefault(entry, position)
            if not self._next_is(":"):
                raise self.error("a colon is expected after the key")
            self.index += 1
            self.document.add_entry(mapping, entry, position, self.value(entry))
        return mapping

    def _array(self, at: KeyPath) -> list[Any]:
        items: list[Any] = []
        self.index += 1
        while not self._closes("]", first=not items):
            items.append(self.value((*at, len(items))))
        return items

    def _closes(self, bracket: str, *, first: bool) -> bool:
        """Whether the collection ends here; if not, moves to its next entry."""
        if self._next_is(bracket):
            self.index += 1
            return True
        if not first:
            if not self._next_is(","):
                raise self.error(f"a comma or `{bracket}` is expected here")
            self.index += 1
            if self._next_is(bracket):
                raise self.error("there is a comma before the closing bracket", "Remove it")
        return False

    def _next_is(self, character: str) -> bool:
        self.skip_space()
        return self.text.startswith(character, self.index)

    def _scalar(self) -> Any:
        number = _NUMBER.match(self.text, self.index)
        if number is not None and len(number.group()) > _MAX_NUMBER_LENGTH:
            raise self.error("the number is too long", "If it is text, quote it")
        try:
            value, self.index = self.decoder.raw_decode(self.text, self.index)
        except json.JSONDecodeError as error:
            self.index = error.pos
            what = error.msg.removesuffix(" at").removesuffix(" starting")
            raise self.error(f"{what[0].lower()}{what[1:]}") from None
        return value

    def _refuse_constant(self, name: str) -> None:
        raise self.error(f"{name} is not a number of JSON")
