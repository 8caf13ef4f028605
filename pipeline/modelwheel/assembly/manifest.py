"""The manifest: the versioned record that connects compiling and packaging.

It names everything that a wheel is made from, with hashes. It is written once all variants are compiled, is what
packaging reads instead of the spec, and ships in the wheel.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from ..accuracy import Truth
from ..errors import WheelError
from ..model.fusions.registry import Replaced
from ..model.inspection import ColumnValues, Mask
from ..model.quantization import Quantization
from ..model.reference_result import case_of
from ..signature import Signature
from ..spec.package import DEFAULT_INTERFACES, Interface, Program, WeightsStorage
from ..spec.verification import Tolerance
from ..util.records import JsonRecord, first_mistake
from ..util.text import one_line
from ..util.trees import digest_tree
from ..versions import NUMPY_REQUIREMENT, RUNTIME_REQUIREMENT

# Raise it together with the one in `Manifest`: a Literal cannot refer to a constant.
MANIFEST_VERSION = 3

PROGRAMS: tuple[Program, ...] = ("test", "benchmark")
"""All programs that a bundle may have."""


class File(JsonRecord):
    """A file, identified by its content."""

    path: str
    """Relative to the project, or to the SavedModel, with forward slashes."""
    sha256: str
    size: int


class Model(JsonRecord):
    """The model's names, version, licences and other metadata."""

    name: str
    identifier: str
    module: str
    distribution: str
    version: str
    namespace: str
    cpp_class: str = ""
    """The full name of the class in `cpp_header`; empty if there is none."""
    cpp_header: str = ""
    """Below the directory of headers."""
    author: str
    description: str
    summary: str
    license: str
    weights_license: str | None
    publish: bool = Field(default=True, exclude_if=bool)
    """Whether it may be released."""
    license_files: tuple[str, ...]
    """Paths of the licence texts."""
    urls: dict[str, str]
    keywords: tuple[str, ...]
    bindings: Literal["extension", "shared"] = "extension"
    """Where the Python extension is: in the wheel, or in the package modelwheel-runtime."""
    weights_storage: WeightsStorage = "float32"
    """How the weights are stored; results differ from the model's by what that loses."""
    interfaces: tuple[Interface, ...] = DEFAULT_INTERFACES
    """What the wheel has headers and files for."""
    programs: tuple[Program, ...] = PROGRAMS
    """What a bundle has in addition to the library."""

    @property
    def requirements(self) -> tuple[str, ...]:
        """The requirements of the Python package."""
        runtime = (RUNTIME_REQUIREMENT,) if self.bindings == "shared" else ()
        return (NUMPY_REQUIREMENT, *runtime)

    @property
    def whole_license(self) -> str:
        """The licence of a wheel: that of the code and, if known, that of the weights."""
        if self.weights_license is None or self.weights_license == self.license:
            return self.license
        both = (self.license, self.weights_license)
        # In SPDX expressions AND binds tighter than OR, hence the parentheses.
        return " AND ".join(f"({text})" if " " in text else text for text in both)


class Variant(JsonRecord):
    """One CPU level, batch size and length."""

    level: str
    batch_size: int
    length: int | None = None
    """None if the model has no lengths."""
    object: str
    """Path of its machine code."""
    operations: int
    """Arithmetic operations of one run."""
    bytes_moved: int
    """Bytes that the kernels read and write in one run."""
    cost: float
    """Nanoseconds for one run, estimated or measured by `modelwheel tune`."""
    partial: float = 0.0
    """The part of it that grows with the rows that a run computes, from 0 to 1; 0 if it always computes all."""


class Batching(JsonRecord):
    """How a batch of any number of rows is split into compiled batch sizes."""

    sizes: tuple[int, ...]
    strategy: Literal["cheapest", "smallest"]
    rules: tuple[str, ...]
    no_emulation_reason: str | None
    """Why only compiled batch sizes can be run; None if any number of rows can."""


class Verification(JsonRecord):
    """The results that the built wheel is compared with."""

    evaluator: str = "TensorFlow"
    """What computed it, with its version."""
    seed: int
    ranges: dict[str, tuple[float, float]]
    """[low, high) of the random inputs whose range follows from the model or is set in the spec."""
    masks: Mapping[str, tuple[Mask, ...]] = {}
    """Values that random inputs hold now and then, by name."""
    columns: Mapping[str, tuple[ColumnValues, ...]] = {}
    """Columns of random inputs with bounds of their own, by name."""
    parts: Mapping[str, int] = {}
    """Into how many parts the bounds of random inputs are divided, each of which has a value, by name."""
    some: tuple[str, ...] = ()
    """The random inputs of which each row has an element that is not 0."""
    sampled: bool = False
    """Whether the inputs are rows of real data, of which the wheel has some, not random."""
    rows: tuple[int, ...]
    lengths: tuple[int, ...] = ()
    """Lengths that are compared in addition to the largest one."""
    length_rows: tuple[int, ...] = ()
    """The numbers of rows for these."""
    tolerances: dict[str, Tolerance]
    state_tolerance: Tolerance | None = None
    """Of every variable after the last call; None if the model keeps no state."""
    calls: int | None = None
    """For a model that keeps state: how many calls in a row are compared for each number of rows."""
    boundary: tuple[str, ...] = ()
    """Kinds of boundary rows that the wheel has; those of a model that keeps state are calls in a row."""
    boundary_rows: int = 1
    """The number of rows of each kind."""
    error_factor: float = 1.0
    """How many times the own error of the reference may be exceeded."""
    truth: Truth = Truth(missing="this version of modelwheel did not look for it")
    """The errors of the reference itself, against the same model in float64."""
    reference_sha256: str
    """Hash of the whole reference (`reference.npz`), which stays in the store; the wheel ships a sample."""

    @property
    def state_rows(self) -> tuple[int, ...]:
        """The numbers of rows after whose calls the state is compared."""
        return self.rows if self.calls is not None else ()

    @property
    def cases(self) -> tuple[str, ...]:
        """The evaluations: `16` for rows, `4x20` for rows of another length than the largest.

        Of a model with state `1@3` is call 3 in a row.
        """
        if self.calls is not None:
            return tuple(case_of(rows, call) for rows in self.rows for call in range(self.calls))
        shorter = (case_of(rows, length=n) for n in self.lengths for rows in self.length_rows)
        return (*map(case_of, self.rows), *shorter)

    @property
    def boundary_cases(self) -> tuple[str, ...]:
        """The evaluations of boundary rows: `1@zeros`. Outputs that are not defined have no arrays."""
        return tuple(case_of(self.boundary_rows, kind) for kind in self.boundary)


class Compiler(JsonRecord):
    """Versions and flags of the compiler."""

    tensorflow: str
    modelwheel: str
    xla_flags: dict[str, tuple[str, ...]]
    """By CPU level."""
    tf_xla_flags: tuple[str, ...]
    fusions: tuple[Replaced, ...] = ()
    """Functions of the model that were replaced before compiling."""
    quantization: Quantization | None = Field(default=None, exclude_if=lambda value: value is None)
    """The layers that compute with narrower numbers because the spec asks for it, and what that changes."""


class Provenance(JsonRecord):
    """Where the model comes from."""

    spec_sha256: str
    source: dict[str, str]
    tree_sha256: str
    """Hash over `files`; see `modelwheel.source.fetch`."""
    files: tuple[File, ...]
    """Every file of the SavedModel."""
    signature_key: str
    graphs: dict[str, str]
    """SHA-256 of the frozen graphs by batch size: `4`; with lengths `4_n16`."""


class Sizes(JsonRecord):
    """Sizes in bytes."""

    weights: int
    """All distinct constants, once, as they are stored."""
    expanded_weights: int | None = None
    """Memory that they take once the library is loaded; None if that is where they are stored."""
    machine_code: int
    """XLA's code and its tables, of all variants."""
    saved_model: int


class Manifest(JsonRecord):
    """Everything that a wheel is made from."""

    manifest_version: Literal[3] = 3
    platform: str
    """The platform of its machine code, such as `linux-x86_64`; a project has a manifest for each."""
    model: Model
    signature: Signature
    batching: Batching
    levels: tuple[str, ...]
    """Lowest first."""
    weights: str
    """Path of the constants of all variants."""
    variants: tuple[Variant, ...]
    files: tuple[File, ...]
    """Every file that its wheel is made from and that does not come from the template, by path."""
    verification: Verification
    compiler: Compiler
    provenance: Provenance
    sizes: Sizes
    unverified: str | None = None
    """Why the wheel did not pass verification, if it was kept in spite of that."""

    @classmethod
    def load(cls, path: Path) -> Manifest:
        """Reads what `save` wrote; see `parse`."""
        return Manifest.parse(path.read_bytes(), str(path))

    @staticmethod
    def parse(content: bytes, origin: str) -> Manifest:
        """Parses a manifest from a file or wheel called `origin`.

        Raises:
            WheelError: The content is not a manifest, or one of another version.
        """
        try:
            return Manifest.model_validate_json(content)
        except ValidationError as error:
            raise WheelError(
                f"{one_line(origin)}: {first_mistake(error, 'manifest')}; this modelwheel reads "
                f"manifests of version {MANIFEST_VERSION}: build the model again"
            ) from None

    def about(self) -> dict[str, object]:
        """The description in the library: the manifest without its lists of files."""
        return self.model_dump(
            mode="json",
            include={
                "manifest_version": True,
                "platform": True,
                "model": True,
                "batching": True,
                "levels": True,
                "compiler": True,
                "provenance": {"spec_sha256", "source", "tree_sha256", "signature_key"},
                "sizes": True,
            },
        )


def list_files(project: Path) -> tuple[File, ...]:
    """Every file below a directory with its hash, sorted by path."""
    return tuple(
        File(path=name, sha256=file.sha256, size=file.size)
        for name, file in sorted(digest_tree(project).items())
    )
