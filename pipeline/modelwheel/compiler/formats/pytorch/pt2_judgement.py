"""Judges the JSON in files of `torch.export.save`, and writes it again: every text in it is of a kind that is known.

PyTorch makes Python text of names and evaluates sizes, and a later version may do so with other texts. So a name is
an identifier, and no text has a character that could end another one.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any

from ....errors import UnsupportedModelError
from .pt2_sizes import NotArithmeticError, is_symbol, write_size

_MAX_DEPTH = 100
_TARGET = re.compile(
    r"torch\.ops\.aten\.\w+\.\w+|_operator\.(getitem|add|sub|mul|floordiv|neg|pow)", re.ASCII
)
_CONTAINERS = ("builtins.tuple", "builtins.list", "builtins.dict")
_OTHER_ARGUMENTS = ("as_operator", "as_custom_obj", "as_graph")
_EMPTIED: Mapping[str, Callable[[], Any]] = {
    # Code to be evaluated, and classes that are not read.
    "guards_code": list,
    "treespec_namedtuple_fields": dict,
}
_HARMLESS = re.compile(r"[\w .:@/+-]*", re.ASCII)
"""Names of modules and versions: nothing that calls, quotes, ends a line or assigns."""
_TEXT = re.compile(r"[ -~]*")
_QUOTES = re.compile(r"[\"'\\]")
_MODULE = re.compile(r"[\w. -]{1,400}", re.ASCII)
"""The path of a module in the model: `encoder.layers.0`."""
_NAMES = ("name", "as_name", "forward_arg_names", "user_input_name")
_BY_NAME = (
    *("tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values"),
    *("custom_obj_values", "as_string_to_argument"),
)
"""Objects whose keys are names of values."""


def judge_program(program: Any, file: str) -> Any:
    """A program with nothing that PyTorch would run as code, as JSON.

    Args:
        program: What the file says, as JSON.
        file: Its name.

    Raises:
        UnsupportedModelError: It has something else.
        ValueError, TypeError, KeyError: It is damaged.
    """
    return _Judge(f"the program in {file}").value(program, "", 0)


def judge_payload(config: Any, file: str) -> Any:
    """The list of the tensors beside a program.

    Raises:
        UnsupportedModelError: It has pickles.
        ValueError, TypeError, KeyError, AttributeError: It is damaged.
    """
    for tensor, entry in config["config"].items():
        if entry.get("use_pickle") is not False:
            raise UnsupportedModelError(
                f"{file} holds the tensor {_shown(tensor)} as a pickle, which is not loaded; make it a "
                "dense tensor"
            )
    return _Judge(f"the list of tensors in {file}").value(config, "", 0)


class _Judge:
    def __init__(self, place: str) -> None:
        self._place = place

    def value(self, value: Any, field: str, depth: int) -> Any:
        """A part of the JSON below a field, written again."""
        if depth > _MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        if field in _EMPTIED:
            return _EMPTIED[field]()
        if field == "metadata":
            return _only_module(value)
        if field in _OTHER_ARGUMENTS:
            raise UnsupportedModelError(
                f"{self._place} passes an argument that is neither a tensor nor a number; export it "
                "without control flow of PyTorch and custom classes"
            )
        if isinstance(value, dict):
            return {
                self._key(key, field): self.value(inner, key, depth + 1)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self.value(inner, field, depth + 1) for inner in value]
        return self._text(value, field) if isinstance(value, str) else value

    def _key(self, key: str, field: str) -> str:
        if field in _BY_NAME:
            return self._name(key)
        if field == "range_constraints" and not is_symbol(key):
            raise self._refusal("a range of", key, "export it again")
        return self._harmless(key)

    def _text(self, text: str, field: str) -> str:
        if field == "target":
            return self._target(text)
        if field == "expr_str":
            return self._size(text)
        if field in ("in_spec", "out_spec"):
            return self._structure(text, named=field == "in_spec")
        if field in _NAMES:
            return self._name(text)
        if field == "torch_version" and text.startswith("<="):
            return f"<={self._harmless(text.removeprefix('<='))}"
        if field in ("as_string", "as_strings"):  # such as the equation of einsum
            if not _TEXT.fullmatch(text) or _QUOTES.search(text):
                raise self._refusal("the argument", text, "use letters, digits and signs only")
            return text
        return self._harmless(text)

    def _target(self, text: str) -> str:
        if not _TARGET.fullmatch(text):
            raise UnsupportedModelError(
                f"{self._place} calls {_shown(text)}, which is not an operation of ATen; export it "
                "without custom and higher-order operations",
                code="MW402",
            )
        return text

    def _size(self, text: str) -> str:
        try:
            return write_size(text)
        except NotArithmeticError:
            raise UnsupportedModelError(
                f"{self._place} has a size {_shown(text)} that is not arithmetic; export it again"
            ) from None

    def _name(self, text: str) -> str:
        if not (text.isascii() and text.isidentifier()) or keyword.iskeyword(text):
            raise self._refusal(
                "a value called", text, "use names of letters, digits and _ for inputs"
            )
        return text

    def _harmless(self, text: str) -> str:
        if not _HARMLESS.fullmatch(text):
            raise self._refusal(
                "something called", text, "use letters, digits and _ for modules and keys"
            )
        return text

    def _refusal(self, what: str, text: str, fix: str) -> UnsupportedModelError:
        return UnsupportedModelError(
            f"{self._place} has {what} {_shown(text)}, which could become code; {fix}"
        )

    # --- structures of arguments and results ---

    def _structure(self, text: str, *, named: bool) -> str:
        protocol, spec = json.loads(text)
        if not isinstance(protocol, int):
            raise TypeError("a structure has no version")
        written = self._tree(spec, 0)
        if named and len(written["children_spec"]) == 2:
            # Keywords, which become parameters of a function in Python.
            for name in json.loads(written["children_spec"][1]["context"] or "[]") or ():
                self._name(name)
        return json.dumps([protocol, written])

    def _tree(self, spec: Any, depth: int) -> dict[str, Any]:
        if depth > _MAX_DEPTH:
            raise ValueError("a structure is nested too deeply")
        kind, children = spec["type"], spec["children_spec"]
        if kind is None:
            if children:
                raise ValueError("a value has parts")
            return {"type": None, "context": None, "children_spec": []}
        if kind not in _CONTAINERS:
            raise UnsupportedModelError(
                f"{self._place} takes or returns a {self._harmless(kind)}; use tuples, lists and "
                "dictionaries"
            )
        context: Any = None
        if kind == "builtins.dict":
            keys = json.loads(spec["context"])
            context = [key if type(key) is int else self._harmless(key) for key in keys]
        below = [self._tree(child, depth + 1) for child in children]
        return {"type": kind, "context": json.dumps(context), "children_spec": below}


def _only_module(metadata: Any) -> dict[str, str]:
    """Of the notes on an operation the module that calls it, which names steps; the others are for people, or become functions."""
    stack = metadata.get("nn_module_stack", "") if isinstance(metadata, dict) else ""
    # key,path,class;key,path,class, the innermost module last
    _, path, *_ = (*str(stack).rpartition(";")[2].split(","), "", "")
    return {"nn_module_stack": f"module,{path},Module"} if _MODULE.fullmatch(path) else {}


def _shown(text: str) -> str:
    """A text from a file, on one line and not too long."""
    return ascii(text if len(text) <= 80 else f"{text[:77]}...")
