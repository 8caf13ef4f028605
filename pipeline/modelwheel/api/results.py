"""Results of calls: the verdict on a model, and a wheel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ModelwheelError
from ..model.findings import Finding
from ..signature import Tensor
from ..util.text import one_line
from ..util.words import shape_text, size_text
from ..wheelfile.reports import Comparison, Report, read_report
from ..wheelfile.sizes import WheelSizes, read_sizes
from ..wheelfile.wheel import open_wheel
from . import picture

if TYPE_CHECKING:
    from ..assembly.manifest import Manifest
    from .loading import Model

_TENSORS = ("", "name", "type", "shape")
"""The columns of the table of inputs and outputs."""


@dataclass(frozen=True)
class Verdict:
    """Whether a model can be compiled. It is true in a condition if it can."""

    name: str
    version: str
    text: str
    """One line: `ok digits: 7 kinds of operation, all compiled`, or what stands in the way."""
    inputs: Sequence[tuple[str, str, tuple[int | None, ...] | None]] = ()
    """Name, element type and shape of each; a free axis is None, and so is a shape of unknown rank."""
    outputs: Sequence[tuple[str, str, tuple[int | None, ...] | None]] = ()
    operations: Sequence[str] = ()
    """The kinds of operation that the model uses, sorted."""
    findings: Sequence[Finding] = ()
    """What its author should know."""
    error: ModelwheelError | None = None
    """Why it is refused; None if it is not."""
    spec: str = field(default="", repr=False)
    """The spec that was checked, as YAML."""

    @property
    def ok(self) -> bool:
        """Whether the model can be compiled."""
        return self.error is None

    def __bool__(self) -> bool:
        return self.ok

    def raise_if_refused(self) -> None:
        """Raises the error of a model that is refused.

        Raises:
            ModelwheelError: The model is refused: an UnsupportedModelError in most cases.
        """
        if self.error is not None:
            raise self.error

    def __str__(self) -> str:
        notes = [f"  {finding.severity} {one_line(finding)}" for finding in self.findings]
        return "\n".join([self.text, *notes])

    def _repr_html_(self) -> str:
        tensors = [
            (kind, name, dtype, "unknown" if shape is None else picture.free_shape(shape))
            for kind, several in (("input", self.inputs), ("output", self.outputs))
            for name, dtype, shape in several
        ]
        parts = [picture.table(_TENSORS, tensors), picture.found(self.findings)]
        return picture.card(f"{self.name} {self.version}", self.text, parts)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        return {"text/plain": str(self), "text/html": self._repr_html_()}


@dataclass(frozen=True)
class Wheel:
    """The wheel of a model. A notebook shows it as a picture."""

    path: Path
    """The file."""
    needed: tuple[Path, ...] = ()
    """Wheels in the same directory that it depends on."""
    findings: Sequence[Finding] = field(default=(), repr=False)
    """What its author should know."""
    spec: str = field(default="", repr=False)
    """The spec that it was built from, as YAML; empty if it was not built in this call. Paths in it are relative to its file."""

    @cached_property
    def _manifest(self) -> Manifest:
        return open_wheel(self.path).manifest

    @property
    def name(self) -> str:
        """The name of the model; the wheel installs `model-NAME`."""
        return self._manifest.model.name

    @property
    def version(self) -> str:
        """The version of the model."""
        return self._manifest.model.version

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs in the order of a call: `name`, `dtype`, and `shape`, whose batch axis is None."""
        return self._manifest.signature.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs in their order: `name`, `dtype`, and `shape`, whose batch axis is None."""
        return self._manifest.signature.outputs

    @property
    def levels(self) -> tuple[str, ...]:
        """The CPU levels that it has code for, lowest first."""
        return self._manifest.levels

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The compiled batch sizes, ascending."""
        return self._manifest.batching.sizes

    @property
    def license(self) -> str:
        """The licence of the wheel, as an SPDX expression."""
        return self._manifest.model.whole_license

    @cached_property
    def sizes(self) -> WheelSizes:
        """Bytes of the wheel, its library, weights, machine code and runtime."""
        return read_sizes(open_wheel(self.path))

    @cached_property
    def report(self) -> Report | None:
        """The report of its verification, which is beside the wheel; None if there is none.

        Raises:
            WheelError: The report is not valid.
        """
        return read_report(self.path)

    @property
    def verification(self) -> Mapping[str, Comparison]:
        """For each CPU level that was compared, the comparison that came closest to its limit."""
        worst: dict[str, Comparison] = {}
        for comparison in self.report.comparisons if self.report is not None else ():
            if comparison.level not in worst or comparison.share > worst[comparison.level].share:
                worst[comparison.level] = comparison
        return worst

    def load(self, **options: Any) -> Model:
        """The model, without installing the wheel; see `modelwheel.load`."""
        from .loading import load

        return load(self.path, **options)

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        tensors = [
            (kind, t.name, t.dtype, shape_text(t.shape, t.leading_per_row, t.extents))
            for kind, several in (("input", self.inputs), ("output", self.outputs))
            for t in several
        ]
        sizes = self.sizes
        library = [("weights", sizes.weights), ("machine code", sizes.machine_code)]
        batches = ", ".join(map(str, self.batch_sizes))
        parts = [
            picture.table(_TENSORS, tensors),
            picture.line(f"compiled for {', '.join(self.levels)}; batch sizes {batches}"),
            picture.errors([(k, c.share, c.passed) for k, c in self.verification.items()]),
            picture.stack([*library, ("runtime", sizes.runtime)]),
            picture.found(self.findings),
        ]
        below = f"{self.path.name}, {size_text(sizes.wheel)}, {self.license}"
        return picture.card(f"{self.name} {self.version}", below, parts)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
