"""Writes the commented spec of `modelwheel new`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ..errors import SpecError
from ..util.text import one_line
from .explain import explain
from .fields import Section
from .model import ModelSection
from .reading.document import Document
from .sources import SOURCE_KINDS


@dataclass(frozen=True)
class TensorDescription:
    """An input or output of a signature; None is a free axis, or for `shape` an unknown rank."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None
    batch_axis: int = 0
    """Which axis is the batch if it is free."""

    @property
    def has_free_batch(self) -> bool:
        """Whether the batch axis is free."""
        return bool(self.shape) and self.shape is not None and self.shape[self.batch_axis] is None

    @property
    def has_other_free_axes(self) -> bool:
        """Whether anything but the batch axis is free."""
        return self.shape is None or any(
            extent is None and axis != self.batch_axis for axis, extent in enumerate(self.shape)
        )


@dataclass(frozen=True)
class ModelDescription:
    """The signatures of a model, as plain values."""

    signatures: tuple[str, ...]
    serving_key: str
    inputs: tuple[TensorDescription, ...]
    outputs: tuple[TensorDescription, ...]
    ports: Mapping[str, Mapping[str, str | bool]] = field(default_factory=dict)
    """What a GraphDef's `feeds`, `fetches` and `constants` seem to be."""
    shared: bool = False
    """Whether its package has shared bindings."""


@dataclass(frozen=True)
class Origin:
    """Where a spec says that its model is."""

    source: Mapping[str, Any] = field(default_factory=dict)
    """The fields of `source` that pin it; none for a path of this machine."""
    note: str = ""
    """Why there is no pin; one sentence."""


def scaffold_spec(
    name: str,
    path: Path,
    model: ModelDescription,
    *,
    is_file: bool = False,
    origin: Origin | None = None,
) -> str:
    """A spec, as commented YAML, that `load_spec` accepts.

    Args:
        name: The model's name.
        path: The model, relative to the directory of the spec.
        model: The signature `model.serving_key` and the names of all signatures.
        is_file: Whether the model is a file; SavedModels are directories.
        origin: Where everybody finds it; by default, it is named by its path.

    Raises:
        SpecError: The name, the path or the signature's name is not allowed in a spec.
    """
    values = {"name": name, "version": "1.0.0", "serving_key": model.serving_key}
    origin = origin or Origin()
    source = dict(origin.source)
    if is_file and not source:
        source = {"directory": path.parent.as_posix(), "path": path.name}
    require_valid(ModelSection, values | ({} if source else {"saved_model": path.as_posix()}))
    if source:
        require_valid(_section_of(source), {**source, **model.ports})
    sections = [
        "# yaml-language-server: $schema=schema.json",
        _model_section(name, None if source else path, model, origin.note),
        _source_section(source, model.ports, origin.note) if source else "",
        _compilation_section(model),
        _inputs_section(model),
        _PACKAGE + (_SHARED if model.shared else ""),
        _VERIFY,
    ]
    return "\n".join(section for section in sections if section)


def require_valid(section: type[Section], values: Mapping[str, object]) -> None:
    """Checks the fields of one section of a spec.

    Raises:
        SpecError: One is wrong; the message lists them all.
    """
    try:
        section.model_validate(values)
    except ValidationError as error:
        problems = explain(error, Document(Path()))
        raise SpecError("\n".join(problem.sentence() for problem in problems)) from None


def _section_of(source: Mapping[str, Any]) -> type[Section]:
    return next(section for kind, section in SOURCE_KINDS.items() if kind in source)


def _model_section(name: str, saved_model: Path | None, model: ModelDescription, note: str) -> str:
    others = [signature for signature in model.signatures if signature != model.serving_key]
    choice = f"  # also in this model: {', '.join(map(_comment, others))}" if others else ""
    place = []
    if saved_model is not None:
        place = [f"  saved_model: {_scalar(saved_model.as_posix())}  # relative to this file"]
        place += [f"  # {_comment(note)}"] if note else []
    lines = [
        "model:",
        f"  name: {name}  # the wheel is called model-{name.replace('_', '-')}",
        '  version: "1.0.0"',
        *place,
        f"  serving_key: {_scalar(model.serving_key)}{choice}",
        *_tensor_comments("inputs", model.inputs),
        *_tensor_comments("outputs", model.outputs),
        "  # author: Your Name",
        "  # description: What the model does.",
    ]
    return "\n".join(lines) + "\n"


def _source_section(
    source: Mapping[str, Any], ports: Mapping[str, Mapping[str, str | bool]], note: str
) -> str:
    lines = ["source:"]
    for key, value in source.items():
        if isinstance(value, str):
            lines.append(f"  {key}: {_scalar(value)}")
        else:
            lines += [
                f"  {key}:",
                *(f"    {_scalar(name)}: {_scalar(pin)}" for name, pin in value.items()),
            ]
    if "directory" in source:
        lines[1] += "  # relative to this file"
    lines += [f"  # {_comment(note)}"] if note else []
    if ports:
        lines += [
            "  # Found in the graph, which does not say what they are: placeholders, and what no node reads.",
            "  # Correct the names, and remove what is not for inference; the order is that of the wheel.",
        ]
    for option, names in ports.items():
        if names:
            lines.append(f"  {option}:")
            lines += [f"    {_scalar(name)}: {_value(value)}" for name, value in names.items()]
    return "\n".join(lines) + "\n"


def _tensor_comments(title: str, tensors: tuple[TensorDescription, ...]) -> list[str]:
    return [f"  # {title}:"] + [
        f"  #   {_comment(tensor.name)}: {_comment(tensor.dtype)} {_shape(tensor)}"
        for tensor in tensors
    ]


def _shape(tensor: TensorDescription, free: str = "?") -> str:
    if tensor.shape is None:
        return "of unknown shape"
    axes = [free if length is None else str(length) for length in tensor.shape]
    if tensor.has_free_batch:
        axes[tensor.batch_axis] = "batch"
    return f"[{', '.join(axes)}]"


def _compilation_section(model: ModelDescription) -> str:
    if not any(tensor.has_free_batch for tensor in model.inputs):
        return "# No input has a free batch axis: the model is compiled for its fixed batch size.\n"
    lines = [
        "# The batch sizes that are compiled follow from the model: `modelwheel check` says which. To choose them:",
        "# compilation:",
        "#   batch_sizes: [1, 4, 16]",
    ]
    return "\n".join(lines) + "\n"


def _inputs_section(model: ModelDescription) -> str:
    free = [tensor for tensor in model.inputs if tensor.has_other_free_axes]
    if not free:
        return ""
    lines = [
        "# To fill in: these inputs have free axes in addition to the batch; machine code needs their",
        "# lengths. Replace each `?` by a number, or by several as {buckets: [32, 128], pad: 0}, or by the word batch",
        "# where that is the axis of the rows; then remove the `# ` in front of these lines.",
        "# inputs:",
    ]
    for tensor in free:
        axes = ["?" if length is None else str(length) for length in tensor.shape or (None, None)]
        if tensor.has_free_batch or tensor.shape is None:
            axes[tensor.batch_axis] = "batch" if tensor.batch_axis else "null"
        lines.append(f"#   {_comment(_scalar(tensor.name))}: {{shape: [{', '.join(axes)}]}}")
    return "\n".join(lines) + "\n"


_PACKAGE = """\
package:
  license: Apache-2.0  # of the generated code
  # weights_license: CC-BY-4.0  # of the weights; SPDX expression
  # summary: One line for listings.
"""

_SHARED = "  bindings: shared  # one wheel for each platform serves every Python\n"

_VERIFY = """\
verify:
  # Accepted difference from TensorFlow: atol + rtol * largest absolute output.
  tolerance: {atol: 0.0, rtol: 1.0e-5}
"""


def _scalar(text: str) -> str:
    """The text as a YAML scalar in one line, quoted unless it is a simple word or path."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*|\.{0,2}(/[A-Za-z0-9_.-]+)+", text) and (
        text.lower() not in ("true", "false", "null")
    ):
        return text
    # Names in models may hold anything. Without a width, PyYAML would break the line.
    quoted = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=math.inf)
    return quoted.strip()


def _value(value: str | bool) -> str:
    return ("false", "true")[value] if isinstance(value, bool) else _scalar(value)


def _comment(text: str) -> str:
    """Text from a model, harmless inside a comment of one line."""
    return one_line(text)
