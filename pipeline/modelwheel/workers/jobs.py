"""The jobs of worker processes: one model for each kind, shared by the client and the worker.

A *request* says what is wanted and decides, with the hashes of the inputs, the key of the result.
A *job* adds the files to read and the directory for the outputs. How it gets to a worker is described
in `modelwheel.workers.protocol`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, Field, TypeAdapter, ValidationInfo, field_validator

from ..levels import Level
from ..model.frozen_signature import CONFIG, GRAPH, SIGNATURE, STATE
from ..model.fusions.registry import Provider
from ..model.inspection import INSPECTION, ColumnValues, Mask, Shape, Table, ValidValues
from ..model.quantization import QUANTIZATION, QuantizedLayer
from ..model.readings import Reading, SavedModelReading
from ..model.reference_result import ARRAYS, SUMMARY, TIMES, default_rows
from ..model.supported_operations import SUPPORTED
from ..platforms import Platform
from ..program.program import PROGRAM_VERSION
from ..spec.compute import Narrow
from ..util.records import JsonRecord, omitted
from ..versions import TENSORFLOW_VERSION
from .flags import Flags
from .outcomes import Exported

if TYPE_CHECKING:
    from typing_extensions import Self

KERNELS, PROGRAM, CONSTANTS = "kernels.o", "program.json", "constants.bin"
"""The outputs of compiling: an object file, the `Program` that calls its kernels, and its constants."""

SIZING = "sizing.json"
"""The output of compiling for several rows to decide batch sizes: a `Sizing`."""

EXPORTED = ("saved_model.pb", "model.tflite", "model.onnx")
"""The outputs of exporting beside `Exported`; empty files where a converter failed."""

PASSES = "passes.txt"
"""The output of compiling for a reader: the graph after each pass, one after the other."""

_AbsolutePath = Annotated[Path, AfterValidator(Path.absolute)]
"""Client and worker have different working directories."""


# --- inputs ---------------------------------------------------------------------------------------


class ModelInput(JsonRecord):
    """A job reads the directory of a model."""

    model: _AbsolutePath


class FrozenGraphInput(JsonRecord):
    """A job reads a frozen graph and the tf2xla Config of its feeds and fetches."""

    graph: _AbsolutePath
    config: _AbsolutePath


class NoInput(JsonRecord):
    """A job reads no files."""


# --- requests -------------------------------------------------------------------------------------


class JobRequest(JsonRecord):
    """A request to a worker, without the files: fields are parameters and part of the key."""

    VERSION: ClassVar[int]
    """Raised when the same request leads to other files; part of every key."""
    INPUTS: ClassVar[type[JsonRecord]]
    OUTPUTS: ClassVar[tuple[str, ...]]
    """The files that the job writes: all of them and no other."""

    def key_inputs(self, **inputs: str) -> dict[str, Any]:
        """Everything that the outputs depend on; `inputs` are the hashes of the input files."""
        # Without the hash of a file, the store would return what was made from another one.
        if set(inputs) != set(self.INPUTS.model_fields):
            raise ValueError(f"{type(self).__name__} needs the hashes of {self.INPUTS.__name__}")
        # Paths are not part of a key: the same model in another place has the same key.
        versions = {"version": self.VERSION, "tensorflow": TENSORFLOW_VERSION}
        return {**versions, **inputs, **self.model_dump(mode="json")}


class LayersRequest(JobRequest):
    """A request about a model whose layers may compute with narrower numbers."""

    # Keys of models without any stay what they are.
    layers: tuple[QuantizedLayer, ...] = Field(default=(), exclude_if=lambda layers: not layers)
    """The layers that do."""

    def with_layers(self, layers: Sequence[QuantizedLayer]) -> Self:
        """The request with these layers."""
        return self.model_copy(update={"layers": tuple(layers)})


class InspectRequest(JobRequest):
    """Read a model without loading it; the output is an `Inspection`."""

    VERSION = 21
    INPUTS = ModelInput
    OUTPUTS = (INSPECTION,)

    reading: Reading = SavedModelReading()

    def job(self, model: Path, out: Path) -> InspectJob:
        """The job for one model; outputs go into the empty directory `out`."""
        inputs = ModelInput(model=model)
        return InspectJob(request=self, inputs=inputs, out=out)


class FreezeRequest(LayersRequest):
    """Freeze one signature at one batch size; the outputs are a graph and a `FrozenSignature`."""

    VERSION = 31
    INPUTS = ModelInput
    OUTPUTS = (GRAPH, CONFIG, SIGNATURE, STATE)

    reading: Reading = SavedModelReading()
    signature: str
    names: Mapping[str, str] = {}
    """New names of inputs and outputs, by those in the model; everything else uses the new ones."""
    batch: int | None
    """None for a signature without a free batch axis."""
    shapes: Mapping[str, Shape] = {}
    allow_pruned_inputs: bool | Literal["keep"] = False
    keep_state: bool = False
    """Whether variables that calls write become state; otherwise they are refused."""
    fusions: tuple[Provider, ...] = ()
    """What replaces calls of functions that the model marks."""

    def job(self, model: Path, out: Path) -> FreezeJob:
        """The job for one model; outputs go into the empty directory `out`."""
        inputs = ModelInput(model=model)
        return FreezeJob(request=self, inputs=inputs, out=out)


class CompileRequest(JobRequest):
    """Compile one frozen graph for one CPU level of one platform."""

    VERSION = 2
    INPUTS = FrozenGraphInput
    OUTPUTS: ClassVar[tuple[str, ...]] = (KERNELS, PROGRAM, CONSTANTS)

    triple: str
    """LLVM's name of the platform."""
    cpu: str
    """LLVM's name of the CPU; with `features` it decides which instructions may be used."""
    features: str
    cpp_class: str
    """See `cpp_class`."""
    flags: Flags
    """All of them; the process that compiles has no others."""

    @classmethod
    def at(cls, platform: Platform, level: Level, cpp_class: str, flags: Flags) -> CompileRequest:
        """The request for one CPU level of one platform."""
        return cls(
            triple=platform.triple,
            cpu=level.llvm_cpu,
            features=level.llvm_features,
            cpp_class=cpp_class,
            flags=flags,
        )

    def key_inputs(self, **inputs: str) -> dict[str, Any]:
        return {"program": PROGRAM_VERSION, **super().key_inputs(**inputs)}

    def job(self, frozen: Path, out: Path) -> CompileJob | PassesJob:
        """The job for the graph in the directory `frozen`, into the empty directory `out`."""
        inputs = FrozenGraphInput(graph=frozen / GRAPH, config=frozen / CONFIG)
        return CompileJob(request=self, inputs=inputs, out=out)


class PassesRequest(CompileRequest):
    """Compile, and write as text the graph after each pass, and the program in the end."""

    VERSION = 1
    OUTPUTS = (PASSES,)

    def job(self, frozen: Path, out: Path) -> PassesJob:
        """See `CompileRequest.job`."""
        inputs = FrozenGraphInput(graph=frozen / GRAPH, config=frozen / CONFIG)
        return PassesJob(request=self, inputs=inputs, out=out)


class FrozenRequest(JobRequest):
    """A request about a signature as it would be frozen."""

    freezing: FreezeRequest

    @property
    def reading(self) -> Reading:
        """How the model is read."""
        return self.freezing.reading

    def key_inputs(self, **inputs: str) -> dict[str, Any]:
        # What names a model's layers have follows from how it is read.
        return {"freezing_version": FreezeRequest.VERSION, **super().key_inputs(**inputs)}


class SizingRequest(FrozenRequest):
    """Freeze one signature for several rows and compile it, if it has a batch; the output is a `Sizing`."""

    VERSION = 1
    INPUTS = ModelInput
    OUTPUTS = (SIZING,)

    compiling: CompileRequest

    def with_layers(self, layers: Sequence[QuantizedLayer]) -> Self:
        """The request with these layers."""
        return self.model_copy(update={"freezing": self.freezing.with_layers(layers)})

    def key_inputs(self, **inputs: str) -> dict[str, Any]:
        own = super().key_inputs(**inputs)
        # Flags have their place in what `plan --why` says, as those of compiling have.
        flags = own["compiling"].pop("flags")
        versions = [self.VERSION, CompileRequest.VERSION]
        return {**own, "flags": flags, "version": versions, "program": PROGRAM_VERSION}

    def job(self, model: Path, out: Path) -> SizingJob:
        """The job for one model; outputs go into the empty directory `out`."""
        return SizingJob(request=self, inputs=ModelInput(model=model), out=out)


class ExportRequest(FrozenRequest):
    """Write one signature as files for other runtimes; the outputs are these and an `Exported`."""

    VERSION = 1
    INPUTS = ModelInput
    OUTPUTS = (*EXPORTED, Exported.FILE)

    def job(self, model: Path, out: Path) -> ExportJob:
        """The job for one model; outputs go into the empty directory `out`."""
        return ExportJob(request=self, inputs=ModelInput(model=model), out=out)


class QuantizeRequest(FrozenRequest):
    """Choose the layers that compute with narrower numbers, and their scales; the output is a `Quantization`."""

    VERSION = 1
    INPUTS = ModelInput
    OUTPUTS = (QUANTIZATION,)

    type: Narrow = omitted("int8")
    samples: str
    """The file among the model's with rows of real data."""
    most_changed: float
    """Of the rows' decisions, the part that may change."""
    most_error: float
    """See `Quantization.errors`."""

    def job(self, model: Path, out: Path) -> QuantizeJob:
        """The job for one model; outputs go into the empty directory `out`."""
        return QuantizeJob(request=self, inputs=ModelInput(model=model), out=out)


class Padding(JsonRecord):
    """How an input of one length becomes one of a larger length."""

    axes: tuple[int, ...]
    value: float


class ReferenceRequest(LayersRequest):
    """Evaluate one signature; the outputs are arrays and a `Reference`."""

    VERSION = 34
    INPUTS = ModelInput
    OUTPUTS = (ARRAYS, SUMMARY, TIMES)

    reading: Reading = SavedModelReading()
    signature: str
    names: Mapping[str, str] = {}
    """New names of inputs and outputs, by those in the model; everything else uses the new ones."""
    batch_sizes: tuple[int, ...]
    """The compiled ones, ascending; empty for a signature without a free batch axis."""
    rows: Annotated[tuple[int, ...], Field(validate_default=True)] = ()
    """Numbers of rows to evaluate, the batch sizes among them; by default `default_rows`."""
    seed: int = 0
    ranges: Mapping[str, tuple[float, float]] = {}
    """[low, high) of random inputs, by name; see `modelwheel.model.random_inputs`."""
    masks: Mapping[str, tuple[Mask, ...]] = {}
    """Values that random inputs must hold now and then, by name."""
    columns: Mapping[str, tuple[ColumnValues, ...]] = {}
    """Columns of random inputs with bounds of their own, by name."""
    valid: Mapping[str, ValidValues] = {}
    """What callers may pass, by input; part of the `Reference`."""
    parts: Mapping[str, int] = {}
    """Into how many parts the bounds of random inputs are divided, each of which has a value, by name."""
    some: tuple[str, ...] = ()
    """The random inputs of which each row has an element that is not 0."""
    wide: tuple[str, ...] = ()
    """The inputs of which boundary rows hold the ends of their type, whatever their bounds are."""
    tables: tuple[Table, ...] = ()
    """What the model reads by an index."""
    more: int = 0
    """How many more evaluations of one shape there are, so that their inputs read more of these."""
    samples: str = ""
    """The file among the model's whose rows are used instead of random ones; empty for none."""
    shapes: Mapping[str, Shape] = {}
    """With the largest of `lengths`."""
    lengths: tuple[int, ...] = ()
    """Compiled lengths of the axes in `padded`, ascending."""
    padded: Mapping[str, Padding] = {}
    """The inputs whose axes have several lengths."""
    keep_state: bool = False
    """Whether calls change the model's state; then a sequence of calls is evaluated."""

    @field_validator("batch_sizes")
    @classmethod
    def _sort(cls, sizes: tuple[int, ...]) -> tuple[int, ...]:
        # The order in a spec must not change the key, and the worker expects the largest last.
        return tuple(sorted(sizes))

    @field_validator("rows")
    @classmethod
    def _complete(cls, rows: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        # `info.data` has only fields declared above, and only valid ones.
        sizes = info.data.get("batch_sizes", ())
        if not rows and sizes:
            rows = default_rows(sizes)
        return tuple(sorted({*rows, *sizes}))

    def job(self, model: Path, out: Path) -> ReferenceJob:
        """The job for one model; outputs go into the empty directory `out`."""
        inputs = ModelInput(model=model)
        return ReferenceJob(request=self, inputs=inputs, out=out)


class SupportedRequest(JobRequest):
    """List what the installed TensorFlow compiles; the output is a `Supported`."""

    VERSION = 1
    INPUTS = NoInput
    OUTPUTS = (SUPPORTED,)

    def job(self, out: Path) -> SupportedJob:
        """The job; its output goes into the empty directory `out`."""
        return SupportedJob(request=self, inputs=NoInput(), out=out)


def cpp_class(identifier: str, extent: str, level: Level) -> str:
    """The class name from which XLA derives its symbols, unique among all wheels in a process.

    Args:
        identifier: The model's name as an identifier.
        extent: The batch size, and the length if there are several: `b4`, `b4_n16`.
        level: The CPU level.
    """
    return f"mw::{identifier}_{extent}_{level.identifier}"


# --- jobs -----------------------------------------------------------------------------------------


class _Job(JsonRecord):
    """A request with its files. It may be run again after a failure, in another empty directory."""

    out: _AbsolutePath
    """An existing, empty directory that receives the outputs."""

    @property
    def flags(self) -> Flags:
        """The flags that the process that runs it must find in its environment."""
        return Flags()


class _ModelJob(_Job):
    """A job that reads the directory of a model."""

    inputs: ModelInput


class InspectJob(_ModelJob):
    """See `InspectRequest`."""

    kind: Literal["inspect"] = "inspect"
    request: InspectRequest


class FreezeJob(_ModelJob):
    """See `FreezeRequest`."""

    kind: Literal["freeze"] = "freeze"
    request: FreezeRequest


class GraphJob(_Job):
    """A job in which XLA compiles a frozen graph."""

    request: CompileRequest
    inputs: FrozenGraphInput

    @property
    def flags(self) -> Flags:
        return self.request.flags


class CompileJob(GraphJob):
    """See `CompileRequest`."""

    kind: Literal["compile"] = "compile"


class PassesJob(GraphJob):
    """See `PassesRequest`."""

    kind: Literal["passes"] = "passes"
    request: PassesRequest


class ReferenceJob(_ModelJob):
    """See `ReferenceRequest`."""

    kind: Literal["reference"] = "reference"
    request: ReferenceRequest


class SizingJob(_ModelJob):
    """See `SizingRequest`."""

    kind: Literal["sizing"] = "sizing"
    request: SizingRequest

    @property
    def flags(self) -> Flags:
        return self.request.compiling.flags

    @property
    def freezing(self) -> FreezeJob:
        """The first half, into the same directory."""
        return FreezeJob(request=self.request.freezing, inputs=self.inputs, out=self.out)


class ExportJob(_ModelJob):
    """See `ExportRequest`."""

    kind: Literal["export"] = "export"
    request: ExportRequest


class QuantizeJob(_ModelJob):
    """See `QuantizeRequest`."""

    kind: Literal["quantize"] = "quantize"
    request: QuantizeRequest


class SupportedJob(_Job):
    """See `SupportedRequest`."""

    kind: Literal["supported"] = "supported"
    request: SupportedRequest
    inputs: NoInput


Job: TypeAlias = (
    InspectJob
    | FreezeJob
    | CompileJob
    | PassesJob
    | SizingJob
    | ExportJob
    | QuantizeJob
    | ReferenceJob
    | SupportedJob
)

_JOB: TypeAdapter[Job] = TypeAdapter(Annotated[Job, Field(discriminator="kind")])


def parse_job(content: Mapping[str, Any]) -> Job:
    """The job in a message.

    Raises:
        pydantic.ValidationError: It is not of any kind, or a parameter or file is wrong or missing.
    """
    return _JOB.validate_python(content)


def input_files(job: Job) -> Iterator[Path]:
    """Every file that a job reads."""
    paths: Iterator[Path] = (path for _, path in job.inputs)
    return chain.from_iterable(
        filter(Path.is_file, path.rglob("*")) if path.is_dir() else [path] for path in paths
    )


@dataclass(frozen=True)
class JobResult:
    """The result of a job."""

    seconds: float
    """The duration of the job itself, without the wait for a worker."""
    cpu_seconds: float | None = None
    """Processor time of all its threads; None if it is not known."""
    peak_bytes: int | None = None
    """The most memory that it had beyond what TensorFlow needs; None if it is not known."""
