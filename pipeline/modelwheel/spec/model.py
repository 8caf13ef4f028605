"""The spec of a model as typed values: every field with its meaning and its default."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from packaging.version import InvalidVersion, Version
from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ..errors import SpecError
from ..levels import LEVELS, Level, default_levels
from ..util.names import UnsafePathError
from ..util.trees import read_below
from .batching import MAX_BATCH_SIZE, Batching
from .fields import (
    GivenName,
    Line,
    LocalPath,
    Mistake,
    Prose,
    RelativePath,
    Section,
    mistake,
    mistakes,
    unique,
)
from .flags import FastMath, Flags, TfcompileFlags, XlaFlags, flag_name
from .interface import InputSection, InterfaceOrder, Names, PrunedInputs, check_one_length
from .labels import Labels, read_labels
from .levels import suggest_level
from .names import (
    CPP_CLASS_PATTERN,
    NAME_PATTERN,
    NAMESPACE_PATTERN,
    check_cpp_class,
    check_cpp_header,
    check_model_name,
    check_namespace,
    find_taken,
    to_distribution,
    to_identifier,
)
from .package import MAX_LICENSE_BYTES, PackageSection
from .sources import AnySource, DirectorySource, ExtraFile, Source
from .verification import VerifySection

if TYPE_CHECKING:
    from typing_extensions import Self


def _check_version(version: str) -> str:
    try:
        return str(Version(version))
    except InvalidVersion:
        hint = 'Write it like "1.2.0" or "2.0rc1" (PEP 440)'
        raise mistake(f"'{version}' is not a version", hint) from None


class ModelSection(Section):
    """The model: its name, its version and the signature to compile."""

    name: Annotated[StrictStr, AfterValidator(check_model_name)] = Field(
        description="Name of the model: of the wheel model-NAME, the module model_NAME and the "
        "class tfaot_model::NAME, where - becomes _.",
        examples=["my-model"],
        json_schema_extra={"pattern": NAME_PATTERN},
    )
    version: Annotated[StrictStr, Field(max_length=64), AfterValidator(_check_version)] = Field(
        description="Version of the model and of its wheel (PEP 440), in quotation marks.",
        examples=["1.0.0"],
    )
    saved_model: LocalPath = Field(
        default="./saved_model",
        description="The SavedModel's directory, relative to the spec file; not with `source`.",
    )
    serving_key: GivenName = Field(
        default="serving_default", description="Name of the signature that is compiled."
    )
    author: Line | None = Field(default=None, description="Who made the model.")
    description: Prose | None = Field(
        default=None, description="What the model does, in free text."
    )


_BatchSize = Annotated[StrictInt, Field(ge=1, le=MAX_BATCH_SIZE)]


class CompilationSection(Section):
    """The choice of what to compile."""

    batch_sizes: (
        Annotated[
            tuple[_BatchSize, ...], Field(min_length=1, max_length=64), AfterValidator(unique)
        ]
        | None
    ) = Field(
        default=None,
        description="Batch sizes to compile, in any order. Other sizes are split into these. "
        "Omitted: those that the model gains from, which `modelwheel check` shows.",
        examples=[[1, 2, 4]],
        json_schema_extra={"uniqueItems": True},
    )
    namespace: Annotated[StrictStr, Field(max_length=255), AfterValidator(check_namespace)] = Field(
        default="tfaot_model",
        description="C++ namespace of the model's class.",
        json_schema_extra={"pattern": NAMESPACE_PATTERN},
    )
    fusions: (
        Annotated[tuple[GivenName, ...], Field(max_length=256), AfterValidator(unique)] | None
    ) = Field(
        default=None,
        description="Names of marked functions, composites of StableHLO, layers of Keras and patterns that are replaced "
        "by registered implementations; [] for none. Omitted: all marked functions and composites whose name is registered.",
        examples=[["embedding_lookup"]],
        json_schema_extra={"uniqueItems": True},
    )
    tf_xla_flags: Flags = Field(default=(), description="Extra TF_XLA_FLAGS (TensorFlow to XLA).")
    xla_flags: XlaFlags = Field(default=(), description="Extra XLA_FLAGS (XLA to machine code).")
    cpp_class: (
        Annotated[StrictStr, Field(max_length=255), AfterValidator(check_cpp_class)] | None
    ) = Field(
        default=None,
        description="Full name of a class like those that tfcompile generates, as its `cpp_class`. With several "
        "batch sizes there is one for each, which ends with _bs and the number.",
        examples=["foo::bar::MatMulComp"],
        json_schema_extra={"pattern": CPP_CLASS_PATTERN},
    )
    cpp_header: Annotated[RelativePath, AfterValidator(check_cpp_header)] | None = Field(
        default=None,
        description="Header of `cpp_class`, below `include`. Omitted: NAME.h, where - becomes _.",
        examples=["nets/matmul.h"],
    )
    tfcompile_flags: TfcompileFlags = Field(
        default=(),
        description="Flags as tfcompile's command line has them: those of XLA that `xla_flags` takes.",
    )

    @field_validator("batch_sizes")
    @classmethod
    def _sort(cls, sizes: tuple[int, ...] | None) -> tuple[int, ...] | None:
        # One order, so that neither the digest nor the wheel depends on the order in the file.
        return tuple(sorted(sizes)) if sizes is not None else None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.cpp_header is not None and self.cpp_class is None:
            wrong = "it is the header of cpp_class, which is missing"
            raise mistake(wrong, "Add cpp_class or remove this", ("cpp_header",))
        twice = set(map(flag_name, self.xla_flags)) & set(map(flag_name, self.tfcompile_flags))
        if twice:
            wrong = f"xla_flags sets {', '.join(sorted(twice))} as well"
            raise mistake(wrong, "Keep one of them", ("tfcompile_flags",))
        return self

    @property
    def all_xla_flags(self) -> tuple[str, ...]:
        """Flags for XLA from both fields that may have some."""
        own = (flag for flag in self.tfcompile_flags if flag_name(flag).startswith("xla_"))
        return (*self.xla_flags, *own)


def _check_target(name: str) -> str:
    if name not in LEVELS:
        raise mistake(f"'{name}' is not a known CPU level", suggest_level(name), code="MW120")
    return name


_TargetName = Annotated[
    StrictStr, AfterValidator(_check_target), Field(json_schema_extra={"enum": list(LEVELS)})
]


class Spec(Section):
    """Everything that determines how one model becomes a wheel."""

    # Pydantic validates in this order: checks that look at `info.data` see earlier fields only, so
    # `model` and `compilation` stay first.
    model: ModelSection = Field(description="The model: name, version, signature.")
    compilation: CompilationSection = Field(
        default_factory=CompilationSection, description="Batch sizes, namespace, compiler flags."
    )
    source: Source | None = Field(
        default=None, description="Where the SavedModel comes from; omitted: model.saved_model."
    )
    targets: (
        Annotated[tuple[_TargetName, ...], Field(min_length=1), AfterValidator(unique)] | None
    ) = Field(
        default=None,
        description="CPU levels to compile for; omitted: all of each architecture, without those for special arithmetic.",
        examples=[["x86-64", "x86-64-v3"]],
        json_schema_extra={"uniqueItems": True},
    )
    batching: Batching = Field(
        default_factory=Batching, description="How other batch sizes are computed."
    )
    package: PackageSection = Field(
        default_factory=PackageSection, description="Licences and other metadata of the wheel."
    )
    verify: VerifySection = Field(
        default_factory=VerifySection, description="Comparison with TensorFlow."
    )
    names: Annotated[Names, Field(max_length=1024)] = Field(
        default_factory=dict,
        description="New names of inputs and outputs, by those in the model. Everything else in the spec and "
        "in the wheel uses the new names.",
        examples=[{"input_1": "image"}],
    )
    interface_order: InterfaceOrder = Field(
        default="model",
        description="Order of inputs and outputs: `model` is that of the model's file, or, where it has none, that "
        "of their names with numbers as numbers; `sorted` is that of their names as text, as in older wheels.",
    )
    inputs: Annotated[Mapping[GivenName, InputSection], AfterValidator(check_one_length)] = Field(
        default_factory=dict, description="Shapes of inputs that have free axes, by name."
    )
    labels: Labels = Field(
        default_factory=dict,
        description="What the values of outputs stand for, by name: texts, or a file with one in each line, relative "
        "to the spec file. They name the places of the last axis, or the values of an integer output.",
        examples=[{"probabilities": ["cat", "dog"]}, {"probabilities": "labels.txt"}],
    )
    allow_pruned_inputs: PrunedInputs = Field(
        default=False,
        description="Accept inputs that no output depends on: `true` leaves them out, `keep` keeps them in the "
        "interface and ignores their values.",
    )
    keep_state: StrictBool = Field(
        default=False,
        description="Accept a signature that writes variables: they become the state of each model "
        "object, which calls change.",
    )
    fast_math: FastMath = Field(
        default_factory=FastMath, description="Relaxations of IEEE arithmetic, all off by default."
    )

    _path: Path = PrivateAttr(default=Path("spec.yaml"))
    _bare: bool = PrivateAttr(default=False)
    _held: str = PrivateAttr(default="")
    _licenses: dict[str, bytes] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any) -> None:
        """Takes the file's path from the validation context, `{"path": Path, "bare": bool}`."""
        if isinstance(context, Mapping) and "path" in context:
            self._path, self._bare = context["path"], context.get("bare", False)

    @field_validator("compilation")
    @classmethod
    def _check_class(
        cls, compilation: CompilationSection, info: ValidationInfo
    ) -> CompilationSection:
        model = info.data.get("model")
        if model is not None and compilation.cpp_class is not None:
            identifier = to_identifier(model.name)
            taken = find_taken(compilation.cpp_class, compilation.namespace, identifier)
            if taken is not None:
                raise mistake(*taken, ("cpp_class",))
            if compilation.cpp_header is None:
                check_cpp_header(f"{identifier}.h", "cpp_header")
        return compilation

    @field_validator("package")
    @classmethod
    def _check_headers(cls, package: PackageSection, info: ValidationInfo) -> PackageSection:
        compilation = info.data.get("compilation")
        if compilation is None or compilation.cpp_class is None or "cpp" in package.interfaces:
            return package
        wrong = "compilation.cpp_class is a class of cpp, which is not in the list"
        raise mistake(wrong, "Add cpp", ("interfaces",))

    @field_validator("source")
    @classmethod
    def _check_one_place(cls, source: Source | None, info: ValidationInfo) -> Source | None:
        model = info.data.get("model")
        if source is not None and model is not None and "saved_model" in model.model_fields_set:
            wrong = "both source and model.saved_model name a place of the model"
            raise mistake(wrong, "Keep one; `path` in source leads to the SavedModel's directory")
        return source

    @field_validator("targets")
    @classmethod
    def _lowest_first(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return tuple(name for name in LEVELS if name in names) if names is not None else None

    @field_validator("batching")
    @classmethod
    def _check_rules(cls, batching: Batching, info: ValidationInfo) -> Batching:
        compilation = info.data.get("compilation")
        if compilation is not None and compilation.batch_sizes is not None:
            uncompiled = batching.find_uncompiled(compilation.batch_sizes)
            if uncompiled:
                raise mistakes(uncompiled)
        return batching

    @field_validator("labels")
    @classmethod
    def _check_labels(cls, labels: Labels, info: ValidationInfo) -> Labels:
        # An older version of a spec, out of git, is read without its files.
        if info.context is None or not info.context.get("with_files"):
            return labels
        directory, wrong_labels = info.context["path"].absolute().parent, []
        for name, value in labels.items():
            try:
                read_labels(directory, value)
            except ValueError as error:
                wrong, _, hint = str(error).rpartition("; ")
                wrong_labels.append(Mistake(wrong, hint.capitalize(), (name,)))
        if wrong_labels:
            raise mistakes(wrong_labels)
        return labels

    @field_validator("fast_math")
    @classmethod
    def _check_flags(cls, fast_math: FastMath, info: ValidationInfo) -> FastMath:
        compilation = info.data.get("compilation")
        names = {flag_name(flag) for flag in fast_math.xla_flags()}
        extra = compilation.all_xla_flags if compilation is not None else ()
        twice = [name for name in map(flag_name, extra) if name in names]
        # Flags alone are fine: a configuration of CMS sets these, and keeps its meaning.
        if twice and fast_math.model_fields_set:
            fields = [
                f"compilation.{field}"
                for field in ("xla_flags", "tfcompile_flags")
                if names & set(map(flag_name, getattr(compilation, field)))
            ]
            wrong = f"{' and '.join(fields)} sets {', '.join(twice)} as well"
            raise mistake(wrong, "Remove the flags there")
        return fast_math

    @property
    def path(self) -> Path:
        """The file that the spec was read from, as the caller named it; the model itself, if it is bare."""
        return self._path

    @property
    def is_bare(self) -> bool:
        """Whether no file has this spec: it was made for a model that the caller named."""
        return self._bare

    @property
    def directory(self) -> Path:
        """The directory that the spec's paths are relative to, absolute."""
        return self._path.absolute().parent

    def named_by_version(self) -> Self:
        """A copy of the spec with the version in the name of the model and in all names that follow from it.

        Raises:
            SpecError: The name would be too long.
        """
        version = re.sub(r"[^a-z0-9]+", "-", self.model.version.lower())
        try:
            name = check_model_name(f"{self.model.name}-{version}")
        except PydanticCustomError as error:
            raise SpecError(
                f"{self.path}: the name with the version {error}", code="MW115"
            ) from None
        return self.model_copy(update={"model": self.model.model_copy(update={"name": name})})

    def holding(self, file: str) -> Self:
        """A copy of the spec, the directory of whose model holds it in this file; empty if it does not."""
        held = self.model_copy()
        held._held = file
        return held

    @property
    def origin(self) -> AnySource:
        """Where the model comes from, with paths below the spec's directory."""
        own = DirectorySource(directory=self.model.saved_model)
        source = (self.source or own).resolve(self.directory).holding(self._held)
        compute = self.package.compute
        samples = filter(None, {self.verify.samples, compute.samples if compute else None})
        return source.with_extras(*map(ExtraFile, sorted(samples)))

    @property
    def license_texts(self) -> Mapping[str, bytes]:
        """The licence texts by the names that they have in the wheel; each is read once.

        Raises:
            SpecError: One cannot be read any more, or is not a plain file.
        """
        for name in self.package.license_files:
            if PurePosixPath(name).name not in self._licenses:
                try:
                    text = read_below(self.directory, name, MAX_LICENSE_BYTES)
                except (OSError, UnsafePathError) as error:
                    raise SpecError(
                        f"{self.path}: package.license_files: cannot read {name!r}: {error}; "
                        "put the text itself there",
                        code="MW115",
                    ) from None
                self._licenses[PurePosixPath(name).name] = text
        return self._licenses

    @property
    def label_texts(self) -> Mapping[str, tuple[str, ...]]:
        """The labels of outputs, by name.

        Raises:
            SpecError: A file with labels cannot be read any more.
        """
        try:
            return {name: read_labels(self.directory, value) for name, value in self.labels.items()}
        except ValueError as error:
            raise SpecError(f"{self.path}: labels: {error}", code="MW115") from None

    @property
    def identifier(self) -> str:
        """The model's name as an identifier of C, C++ and Python (`test_simple`)."""
        return to_identifier(self.model.name)

    @property
    def distribution(self) -> str:
        """The normalised name of the wheel (`model-test-simple`)."""
        return to_distribution(self.model.name)

    @property
    def cpp_header(self) -> str | None:
        """The header of `compilation.cpp_class`, below `include`; None without such a class."""
        if self.compilation.cpp_class is None:
            return None
        return self.compilation.cpp_header or f"{self.identifier}.h"

    @property
    def module(self) -> str:
        """The name of the Python module (`model_test_simple`)."""
        return f"model_{self.identifier}"

    def resolve_levels(self, architecture: str) -> tuple[Level, ...]:
        """The CPU levels of an architecture to compile for, lowest first; may be empty."""
        if self.targets is None:
            return default_levels(architecture)
        chosen = (LEVELS[name] for name in self.targets)
        return tuple(level for level in chosen if level.architecture == architecture)

    def xla_flags(self) -> tuple[str, ...]:
        """The spec's part of XLA_FLAGS: switches for arithmetic, each set once, then the extra flags."""
        extra = self.compilation.all_xla_flags
        names = {flag_name(flag) for flag in extra}
        arithmetic = self.fast_math.xla_flags()
        return (*(flag for flag in arithmetic if flag_name(flag) not in names), *extra)

    def spec_digest(self) -> str:
        """SHA-256 of the spec's values; comments, layout and the place of the file have no effect."""
        # Manifests record it and releases are compared by it: a new field, or another default,
        # changes the digest of every spec.
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()
