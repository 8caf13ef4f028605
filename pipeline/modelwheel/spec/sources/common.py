"""Common to all kinds of sources: which part is the model, and how a model of its format is read."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PrivateAttr,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from ...util.words import suggest
from ..fields import (
    GivenName,
    Mistake,
    RelativePath,
    Section,
    mistake,
    mistakes,
    one_line,
    unique,
)
from ..formats import FORMATS, OPTIONS, detect_format

if TYPE_CHECKING:
    from typing_extensions import Self

_GraphName = Annotated[StrictStr, Field(min_length=1, max_length=1024), AfterValidator(one_line)]
_Constant: TypeAlias = StrictBool | StrictInt | StrictFloat


def _from_pairs(value: Any) -> Any:
    """The mapping that `OrderedTensors` was before it became JSON."""
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


class ModelSource(Section):
    """Common to all kinds of sources."""

    title: ClassVar[str]
    """What the model comes from, with its article."""

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
        """A copy of the source, with files that are fetched in addition to the model."""
        extended = self.model_copy()
        extended._extras = (*self._extras, *extras)
        return extended

    def holding(self, file: str) -> Self:
        """A copy of the source, whose directory holds the model in one file; empty if it does not."""
        held = self.model_copy()
        held._held = file
        return held

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        model_format = self.model_format
        for option in OPTIONS:
            if option in self.model_fields_set and option not in FORMATS[model_format].options:
                having = [name for name, row in FORMATS.items() if option in row.options]
                wrong = f"{option} is not an option of models of the format {model_format}"
                hint = f"Remove it; it is for {' and '.join(having)}"
                raise mistakes([Mistake(wrong, hint, (option,))])
        if self.freeze_saver and not self.checkpoint:
            wrong = "a saver restores a checkpoint, and there is none"
            raise mistake(wrong, "Add checkpoint or remove this", ("freeze_saver",))
        return self

    @property
    def named(self) -> str:
        """The path or name that says what the model is, before anything is fetched."""
        return self.path

    @property
    def subdirectory(self) -> str:
        """`path`, but empty for the root."""
        return "" if self.path == "." else self.path

    @property
    def model_format(self) -> str:
        """The format's name in `FORMATS`, given or known by the model's name."""
        return self.format or detect_format(self._held or self.named)

    @property
    def file_name(self) -> str:
        """The name of the model's file in the tree, if the model is a file."""
        return PurePosixPath(self._held or self.named).name

    @property
    def is_file(self) -> bool:
        """Whether the model is a file, as most formats have it, and not a directory."""
        return bool(FORMATS[self.model_format].suffixes)

    @property
    def format_options(self) -> dict[str, Any]:
        """The options that the spec gives, as JSON holds them; files by their names in the tree."""
        options = self.model_dump(mode="json", include=set(OPTIONS), exclude_defaults=True)
        for name in {"config", "checkpoint", "freeze_saver"} & options.keys():
            options[name] = PurePosixPath(options[name]).name
        return options

    def resolve(self, directory: Path) -> Self:
        """A copy of the source, with its relative paths below `directory`, where the spec is."""
        resolved = self.model_copy()
        resolved._directory = directory
        return resolved

    @abstractmethod
    def given(self) -> dict[str, str]:
        """The fields that say what is fetched; `source_of` makes the source of them again."""

    def provenance(self, tree_sha256: str) -> dict[str, str]:
        """Where a model with this tree hash comes from, without credentials and local paths."""
        return {**self.given(), "tree_sha256": tree_sha256}


def in_quotes(subdirectory: str) -> str:
    """The end of a source's name in messages."""
    return f", {subdirectory!r}" if subdirectory else ""
