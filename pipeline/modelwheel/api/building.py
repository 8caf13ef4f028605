"""`modelwheel.check` and `modelwheel.build`: what the command line does, for a model object or a path."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from .. import extras
from ..config import load_config
from ..engine import build as builder
from ..engine.bare_models import BareModel, make_specs
from ..engine.check_models import CheckedModel, check_models
from ..engine.delivery import writing_to
from ..engine.requirements import require_for_build
from ..errors import ModelwheelError, SpecError, UnsupportedModelError, UsageError
from ..request import Request, make_request
from ..sandbox.policy import Policy
from ..spec import Spec, find_specs, load_specs
from ..spec.bare import DEFAULT_VERSION, spec_text, with_fields
from ..spec.find import is_model
from ..spec.model import ModelSection
from ..spec.scaffold import require_valid
from ..util.files import write_atomically
from .objects import save_object
from .progress import Display
from .results import Verdict, Wheel
from .saving import Target
from .settings import open_sandbox, open_store

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..engine.build import BuildResult
    from ..model.findings import Finding

Path_: TypeAlias = "str | os.PathLike[str]"
SandboxName: TypeAlias = Literal["required", "preferred", "off"]


@dataclass(frozen=True)
class _Wanted:
    """The request of a caller for a model."""

    name: str | None
    version: str | None
    example_inputs: Any
    batch_sizes: Sequence[int] | None
    targets: Sequence[str] | None
    options: Mapping[str, Any] | None
    spec_dir: Path_ | None = None

    def __post_init__(self) -> None:
        """Refuses what the checks of a spec would not see as a caller's mistake."""
        for name, example in (("batch_sizes", "(1, 4)"), ("targets", "['x86-64-v3']")):
            value = getattr(self, name)
            if value is not None and (isinstance(value, str) or not isinstance(value, Iterable)):
                raise UsageError(f"{name}: must be a list, such as {example}; got {value!r}")
        if self.options is not None and not isinstance(self.options, Mapping):
            raise UsageError(
                "options: must be a dict of fields of a spec, such as {'verify': {'rows': 64}}"
            )

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a spec that it stands for."""
        own: dict[str, Any] = {}
        if self.batch_sizes is not None:
            own["compilation"] = {"batch_sizes": list(self.batch_sizes)}
        if self.targets is not None:
            own["targets"] = list(self.targets)
        return with_fields(self.options or {}, own)

    def refuse_beside_spec(self, spec: str) -> None:
        """Refuses what a spec file says itself."""
        fields: dict[str, object] = {"name": self.name, "version": self.version}
        fields |= {"options": self.options, "example_inputs": self.example_inputs}
        fields |= {"spec_dir": self.spec_dir}
        names = [name for name, value in fields.items() if value is not None]
        if names:
            raise UsageError(f"{', '.join(names)}: {spec} is a spec, which says that itself")


@dataclass
class _Session:
    """One call: its store, its sandbox and its display, which end with it."""

    sandbox_name: SandboxName | None
    progress: bool
    scratch: Path = field(init=False)
    display: Display = field(init=False)

    def __enter__(self) -> Self:
        extras.require("build", "compiling models", advise="compile")
        self.sandbox = open_sandbox(_policy(self.sandbox_name))
        self.store = open_store()
        with ExitStack() as stack:
            stack.callback(self.store.close)
            self.scratch = stack.enter_context(self.store.scratch())
            self.display = stack.enter_context(Display(shown=self.progress))
            self._end = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.__exit__(kind, error, trace)

    def spec(self, model: Any, wanted: _Wanted, name: str) -> Spec:
        """The spec of what the caller passed.

        Args:
            model: A path or an object.
            wanted: What the caller says about it.
            name: Of an object, if the caller gives none.
        """
        if not isinstance(model, (str, os.PathLike)):
            return self._spec_of_object(model, wanted, name)
        path = os.fspath(model)
        if not is_model(path):
            wanted.refuse_beside_spec(path)
            specs = load_specs(find_specs([path]))
            if len(specs) != 1:
                raise UsageError(f"one model at a time: {path!r} has {len(specs)} specs")
            return specs[0]
        if wanted.example_inputs is not None:
            raise UsageError("example_inputs: leave it out for a file, which declares its inputs")
        if wanted.spec_dir is not None:
            raise UsageError(
                "spec_dir: a file is saved already; modelwheel new NAME --model PATH writes its spec"
            )
        return self._bare(Path(path), wanted, wanted.name or "")

    def _spec_of_object(self, model: Any, wanted: _Wanted, name: str) -> Spec:
        chosen = wanted.name or name
        if not chosen:
            raise UsageError("name: a model object needs one, such as name='my-model'")
        require_valid(ModelSection, {"name": chosen, "version": wanted.version or DEFAULT_VERSION})
        directory = self.scratch if wanted.spec_dir is None else Path(wanted.spec_dir)
        with writing_to(directory):
            directory.mkdir(parents=True, exist_ok=True)
            target = Target(directory, chosen, wanted.batch_sizes is not None)
            path = save_object(model, wanted.example_inputs, target)
        spec = self._bare(path, wanted, chosen)
        if wanted.spec_dir is not None:
            _write_spec(spec, directory / f"{chosen}.yaml")
        return spec

    def _bare(self, path: Path, wanted: _Wanted, name: str) -> Spec:
        version = wanted.version or DEFAULT_VERSION
        bare = BareModel(path, name, version, wanted.fields)
        (spec,) = make_specs([bare], self.store, self.sandbox, self.display)
        return spec

    def request(self, spec: Spec, wanted: _Wanted) -> Request:
        """The spec, of which the caller may want a part."""
        if spec.is_bare:
            return make_request(spec)
        return make_request(spec, wanted.targets or (), wanted.batch_sizes or ())

    @contextmanager
    def without_scratch(self) -> Iterator[None]:
        """Takes the directory where an object was saved out of messages: nobody else knows it."""
        try:
            yield
        except ModelwheelError as error:
            error.args = tuple(self.shown(arg) for arg in error.args)
            raise

    def shown(self, text: Any) -> Any:
        """Text without that directory."""
        return text.replace(f"{self.scratch}{os.sep}", "") if isinstance(text, str) else text


def _policy(name: str | None) -> Policy | None:
    names = [policy.value for policy in Policy]
    if name is not None and name not in names:
        raise UsageError(f"sandbox: {name!r} is none of {', '.join(names)}")
    return None if name is None else Policy(name)


def check(
    model: Any,
    *,
    name: str | None = None,
    version: str | None = None,
    example_inputs: Any = None,
    batch_sizes: Sequence[int] | None = None,
    targets: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    sandbox: SandboxName | None = None,
    progress: bool = True,
) -> Verdict:
    """Checks that a model can be compiled, as `modelwheel check` does.

    It is compiled once, for its smallest batch size and the lowest CPU level; `build` need not do that again.

    Args:
        model: As for `build`.
        name: The model's name in messages; by default that of its file, or `model`.
        version: The model's version.
        example_inputs: As for `build`.
        batch_sizes: As for `build`.
        targets: As for `build`.
        options: As for `build`.
        sandbox: As for `build`.
        progress: As for `build`.

    Returns:
        The verdict, which is true if the model can be compiled: a refused model raises nothing here.

    Raises:
        UsageError: This is not a model, or an argument is wrong.
        SpecError: A field of the spec is wrong, or there is no such file.
        UnsupportedModelError: The framework cannot export the object.
        EnvironmentProblemError: This machine lacks something that the check needs.
    """
    wanted = _Wanted(name, version, example_inputs, batch_sizes, targets, options)
    with _Session(sandbox, progress) as session, session.without_scratch():
        spec = session.spec(model, wanted, "model")
        session.request(spec, wanted)  # refuses what the spec does not have
        limits = load_config().limits
        (checked,) = check_models(
            [spec], session.store, session.sandbox, session.display, limits=limits
        )
        return _verdict(checked, spec, session)


def _verdict(checked: CheckedModel, spec: Spec, session: _Session) -> Verdict:
    inspection, key = checked.inspection, spec.model.serving_key
    signature = inspection.signature(key) if inspection is not None else None
    inputs, outputs = (signature.inputs, signature.outputs) if signature is not None else ((), ())
    uses = inspection.ops if inspection is not None else ()
    error = checked.error
    errors = [str(finding) for finding in checked.findings if finding.severity == "error"]
    if error is None and errors:
        error = UnsupportedModelError("\n".join(errors))
    if error is not None:
        error.args = tuple(map(session.shown, error.args))
    return Verdict(
        spec.model.name,
        spec.model.version,
        session.shown(checked.verdict),
        [(tensor.name, tensor.dtype, tensor.shape) for tensor in inputs],
        [(tensor.name, tensor.dtype, tensor.shape) for tensor in outputs],
        sorted(use.op for use in uses if key in use.signatures),
        tuple(checked.findings),
        error,
        _text_of(spec),
    )


def _write_spec(spec: Spec, path: Path) -> None:
    """Writes a spec, unless there is one that says something else.

    Raises:
        SpecError: There is.
    """
    content = spec_text(spec).encode()
    if path.exists() and path.read_bytes() != content:
        raise SpecError(
            f"{path} exists and says something else; build it by its path, or remove it"
        )
    with writing_to(path.parent):
        write_atomically(path, content)


def _text_of(spec: Spec) -> str:
    return spec_text(spec) if spec.is_bare else spec.path.read_text(encoding="utf-8")


@overload
def build(
    model: Path_,
    *,
    name: str | None = None,
    version: str | None = None,
    batch_sizes: Sequence[int] | None = None,
    targets: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    out: Path_ = "dist",
    sandbox: SandboxName | None = None,
    jobs: int | None = None,
    progress: bool = True,
) -> Wheel: ...


@overload
def build(
    model: Any,
    *,
    name: str,
    version: str | None = None,
    example_inputs: Any = None,
    batch_sizes: Sequence[int] | None = None,
    targets: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    out: Path_ = "dist",
    spec_dir: Path_ | None = None,
    sandbox: SandboxName | None = None,
    jobs: int | None = None,
    progress: bool = True,
) -> Wheel: ...


def build(
    model: Any,
    *,
    name: str | None = None,
    version: str | None = None,
    example_inputs: Any = None,
    batch_sizes: Sequence[int] | None = None,
    targets: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    out: Path_ = "dist",
    spec_dir: Path_ | None = None,
    sandbox: SandboxName | None = None,
    jobs: int | None = None,
    progress: bool = True,
) -> Wheel:
    """Builds a wheel of a model for this machine and verifies it, as `modelwheel build` does.

    An object is saved in this process, by the framework that made it. Everything else happens in worker processes
    in the sandbox: the model is read, judged, compiled and compared with its framework there. The same model,
    arguments and versions give the same bytes. After an interruption the next call continues from the steps that
    were finished.

    Args:
        model: A path to a model of any format that is read, or to a spec; a Keras model; a `tf.function` or
            `tf.Module`; an `onnx.ModelProto`; a `torch.nn.Module` or `torch.export.ExportedProgram`; a function of
            JAX, or what `jax.export` has made of it.
        name: The model's name: the wheel is called `model-NAME`. By default the name of a file; objects need one.
        version: The model's version (PEP 440); by default 1.0.0.
        example_inputs: For functions of JAX, PyTorch modules, and TensorFlow functions without an input signature:
            what they are called with, one argument or a tuple of them. Arrays, `jax.ShapeDtypeStruct` or
            `tf.TensorSpec`; only their dtypes and shapes count.
        batch_sizes: The batch sizes to compile, such as `(1, 4, 16)`; other sizes are split into these. With
            `example_inputs`, axis 0 of every input is then the batch; without `batch_sizes` their shapes are fixed.
            For a spec: only these of its batch sizes.
        targets: The CPU levels to compile for, such as `["x86-64-v3"]`; by default all of this machine's platform.
        options: Any other field of a spec, as its YAML has it: `{"verify": {"ranges": {"x": [0, 1]}}}`. See the
            spec's reference.
        out: The directory for the wheel; made if it is not there.
        spec_dir: For an object: a directory where it is saved with its spec, for a repository of specs. `modelwheel
            build` then makes the same bytes of NAME.yaml there.
        sandbox: Whether models must run in a sandbox: `required`, `preferred` or `off`; by default what
            `modelwheel.toml` says, else `required`.
        jobs: The most worker processes.
        progress: Whether to show the progress on a terminal or in a notebook.

    Returns:
        The wheel: where it is, what is in it, and how it was verified.

    Raises:
        UsageError: This is not a model, or an argument is wrong.
        SpecError: A field of the spec is wrong, or there is no such file.
        SourceError: The model of a spec cannot be fetched.
        UnsupportedModelError: The model cannot be compiled, or its framework cannot export it.
        VerifyError: The wheel does not compute what the framework does.
        EnvironmentProblemError: This machine lacks something that the build needs, or `out` cannot be written.
        ModelwheelError: Anything else that a build can fail of; see `modelwheel.errors`.
    """
    wanted = _Wanted(name, version, example_inputs, batch_sizes, targets, options, spec_dir)
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs: must be at least 1, got {jobs}")
    with _Session(sandbox, progress) as session, session.without_scratch():
        spec = session.spec(model, wanted, "")
        request, directory = session.request(spec, wanted), Path(out)
        require_for_build([request], session.store, "wheel", directory)
        choice = builder.BuildOptions(
            directory, session.sandbox, max_workers=jobs, limits=load_config().limits
        )
        (result,) = builder.build([request], session.store, choice, session.display)
        return _wheel(result, session.display.found)


def _wheel(result: BuildResult, findings: Sequence[Finding]) -> Wheel:
    for _, error in result.errors:
        raise error
    if result.wheel is None:
        raise SpecError(f"{result.request.spec.path} has no wheel")
    return Wheel(result.wheel, result.needed, tuple(findings), _text_of(result.request.spec))
