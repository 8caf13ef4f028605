"""How the files of a model are read: one record for each format, part of the key of what is made from it.

The modules of `modelwheel.compiler.formats` read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from ..spec.interface import InterfaceOrder
from ..spec.sources import AnySource, OrderedTensors
from ..util.records import JsonRecord
from ..versions import TORCH_MLIR_VERSION


class _Reading(JsonRecord):
    """Common to all formats."""

    order: InterfaceOrder = "model"
    """The order of inputs and outputs."""


class SavedModelReading(_Reading):
    """The directory itself is the model."""

    format: Literal["saved_model"] = "saved_model"
    tags: tuple[str, ...] = ()
    """Which of several MetaGraphs; empty: the only one, or the one for serving."""


class GraphDefReading(_Reading):
    """A graph of TensorFlow in a file."""

    format: Literal["graph_def"] = "graph_def"
    file: str
    """The name of the model's file in its directory."""
    feeds: OrderedTensors = Field(default_factory=dict)
    """Tensors of the graph by the names of the inputs, in the order of the interface."""
    fetches: OrderedTensors = Field(default_factory=dict)
    """Tensors of the graph by the names of the outputs, in the order of the interface."""
    constants: Mapping[str, Any] = {}
    """Values of tensors that are no inputs."""
    find: bool = False
    """Whether feeds and fetches are found in the graph, for `modelwheel new`."""
    config: str = ""
    """The name of a file with a tf2xla Config, which names feeds and fetches."""
    checkpoint: str = ""
    """The prefix of the files of a checkpoint."""
    freeze_saver: str = ""
    """The name of a file with a SaverDef, which says how the graph restores the checkpoint."""


class KerasReading(_Reading):
    """A file of Keras."""

    format: Literal["keras"] = "keras"
    file: str
    """The name of the model's file in its directory."""


class StableHloReading(_Reading):
    """A module of StableHLO in a file: text, bytecode, or what `jax.export` writes."""

    format: Literal["stablehlo"] = "stablehlo"
    file: str
    """The name of the model's file in its directory."""


class OnnxReading(_Reading):
    """A file of ONNX."""

    format: Literal["onnx"] = "onnx"
    file: str
    """The name of the model's file in its directory."""
    constants: Mapping[str, Any] = {}
    """Values of inputs that become constants."""
    converter: str = "operators 5"
    """Which operations write modules of it; the number is raised when they write other ones."""


class PyTorchReading(_Reading):
    """A file that `torch.export.save` writes."""

    format: Literal["pytorch"] = "pytorch"
    file: str
    """The name of the model's file in its directory."""
    converter: str = f"torch-mlir {TORCH_MLIR_VERSION}"
    """What decides the StableHLO that a program becomes."""


class TfliteReading(_Reading):
    """A file of TensorFlow Lite."""

    format: Literal["tflite"] = "tflite"
    file: str
    """The name of the model's file in its directory."""
    converter: str = "operators 2"
    """Which graphs its operators become; the number is raised when they become other ones."""


Reading: TypeAlias = Annotated[
    SavedModelReading
    | GraphDefReading
    | KerasReading
    | StableHloReading
    | OnnxReading
    | PyTorchReading
    | TfliteReading,
    Field(discriminator="format"),
]

_READING: TypeAdapter[Reading] = TypeAdapter(Reading)


def reading_of(source: AnySource, order: InterfaceOrder) -> Reading:
    """How the model of a source is read, with inputs and outputs in this order."""
    fields: dict[str, Any] = {"format": source.model_format, **source.format_options}
    fields["order"] = order
    if source.is_file:
        fields["file"] = source.file_name
    return _READING.validate_python(fields)
