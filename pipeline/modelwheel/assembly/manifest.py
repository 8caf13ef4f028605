"""The versioned record that joins compiling and packaging.

Everything that a wheel is made from is named here with its hash. It is written once all variants are
compiled, read by the wheel stage instead of the spec, and ships in the wheel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import WheelError
from ..signature import Signature
from ..util.trees import digest_tree
from ..versions import NUMPY_REQUIREMENT, RUNTIME_REQUIREMENT

MANIFEST_VERSION = 3


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class File(_Record):
    """A file by its content."""

    path: str
    """Relative to the project, or to the SavedModel, with forward slashes."""
    sha256: str
    size: int


class Model(_Record):
    """Who the model is."""

    name: str
    identifier: str
    module: str
    distribution: str
    version: str
    namespace: str
    author: str
    description: str
    summary: str
    license: str
    weights_license: str | None
    license_files: tuple[str, ...]
    """Licence texts, by their path."""
    urls: dict[str, str]
    keywords: tuple[str, ...]
    bindings: Literal["extension", "shared"] = "extension"
    """Where the Python extension is: in the wheel, or in the package modelwheel-runtime."""

    @property
    def requirements(self) -> tuple[str, ...]:
        """What the Python package needs."""
        runtime = (RUNTIME_REQUIREMENT,) if self.bindings == "shared" else ()
        return (NUMPY_REQUIREMENT, *runtime)

    @property
    def whole_license(self) -> str:
        """The licence of a wheel: that of the code and, if known, that of the weights."""
        if self.weights_license is None or self.weights_license == self.license:
            return self.license
        both = (self.license, self.weights_license)
        return " AND ".join(f"({text})" if " " in text else text for text in both)


class Variant(_Record):
    """One CPU level and batch size."""

    level: str
    batch_size: int
    object: str
    """Path of its machine code."""
    operations: int
    """Arithmetic operations of one run."""
    bytes_moved: int
    """Bytes that the kernels of one run read and write."""
    cost: float
    """Nanoseconds of one run, estimated or (by `modelwheel tune`) measured."""


class Batching(_Record):
    """How rows are composed of batch sizes."""

    sizes: tuple[int, ...]
    strategy: Literal["cheapest", "smallest"]
    rules: tuple[str, ...]
    no_emulation_reason: str | None
    """Why only compiled batch sizes can be run; None where any number of rows can."""


class Tolerance(_Record):
    """How far an output may lie from TensorFlow's."""

    atol: float
    rtol: float
    """Relative to the largest absolute value of the output."""


class Verification(_Record):
    """What the built wheel is held against."""

    seed: int
    ranges: dict[str, tuple[float, float]]
    """[low, high) of the random inputs, where the spec gives them."""
    rows: tuple[int, ...]
    tolerances: dict[str, Tolerance]
    reference_sha256: str
    """Of the whole reference (`reference.npz`), which stays in the store; the wheel ships a sample."""


class Compiler(_Record):
    """What compiled the model."""

    tensorflow: str
    modelwheel: str
    xla_flags: dict[str, tuple[str, ...]]
    """By CPU level."""
    tf_xla_flags: tuple[str, ...]


class Provenance(_Record):
    """Where the model comes from."""

    spec_sha256: str
    source: dict[str, str]
    tree_sha256: str
    """Over `files`; see `modelwheel.source.fetch`."""
    files: tuple[File, ...]
    """Every file of the SavedModel."""
    signature_key: str
    graphs: dict[int, str]
    """SHA-256 of the frozen graphs by batch size."""


class Sizes(_Record):
    """Bytes by part."""

    weights: int
    """All distinct constants, once."""
    machine_code: int
    """XLA's code and its tables, of all variants."""
    saved_model: int


class Manifest(_Record):
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

    def save(self, path: Path) -> None:
        """Writes the manifest as JSON, the same bytes for the same value."""
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Manifest:
        """Reads what `save` wrote; see `parse`."""
        return Manifest.parse(path.read_bytes(), str(path))

    @staticmethod
    def parse(content: bytes, origin: str) -> Manifest:
        """The manifest with this content, which comes from a file or wheel called `origin`.

        Raises:
            WheelError: Not a manifest, or one of another version.
        """
        try:
            return Manifest.model_validate_json(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(["manifest", *map(str, first["loc"])])
            raise WheelError(
                f"{origin}: {where}: {first['msg']}; this modelwheel reads manifests of version "
                f"{MANIFEST_VERSION}: build the model again"
            ) from None

    def about(self) -> dict[str, object]:
        """What the library says about itself: the manifest without its lists of files."""
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
