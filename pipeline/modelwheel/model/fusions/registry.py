"""Fusions: better implementations of parts of a model, chosen by name from a registry.

`tf.function(experimental_implements="embedding_lookup")` marks a function as one that computes what a
name stands for. Before such a model is compiled, calls of these functions are replaced by what is
registered for the name, as TensorFlow Lite does it
(https://ai.google.dev/edge/litert/models/operation_fusion). The reference is evaluated without
replacements, so that a wrong one is found when the wheel is verified. Layers of Keras and patterns of operations
(`modelwheel.model.fusions.patterns`) need no mark; they are replaced where a spec asks for it.

A distribution registers a `Fusion` by an entry point of the group `modelwheel.fusions`, whose name is that
of the fusion. Only workers import the code behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, TypeAlias

from ...errors import EnvironmentProblemError
from ...util.records import JsonRecord
from ...util.remembering import Remembered, packages_mark
from ...util.text import one_line
from ...util.words import count, suggest
from ..findings import Finding
from .patterns import Pattern

GROUP = "modelwheel.fusions"

_OURS = "modelwheel"
_REVISION = "4"
"""Raised when an implementation of ours changes: it is part of the keys of frozen graphs."""
_PACKAGE = "modelwheel.compiler.freeze.fusions"
LAYERS = "keras."
"""Begins the names of layers of Keras, which are those of their classes in small letters."""
_PATTERNS = "pattern."
ON_REQUEST = (LAYERS, _PATTERNS)
"""What authors did not mark: replaced only if a spec names it."""
_SHIPPED = {
    "embedding_lookup": f"{_PACKAGE}.embedding:LOOKUP",
    "embedding_matmul": f"{_PACKAGE}.embedding:MATMUL",
    "keras.gru": f"{_PACKAGE}.keras_layers:GRU",
    "keras.lstm": f"{_PACKAGE}.keras_layers:LSTM",
    "modelwheel.attention": f"{_PACKAGE}.transformer:ATTENTION",
    "modelwheel.gelu": f"{_PACKAGE}.transformer:GELU",
    "modelwheel.gru": f"{_PACKAGE}.recurrent:GRU",
    "modelwheel.layer_norm": f"{_PACKAGE}.transformer:LAYER_NORM",
    "modelwheel.lstm": f"{_PACKAGE}.recurrent:LSTM",
    "modelwheel.masked_attention": f"{_PACKAGE}.transformer:MASKED_ATTENTION",
    "modelwheel.rms_norm": f"{_PACKAGE}.transformer:RMS_NORM",
    "modelwheel.softmax": f"{_PACKAGE}.transformer:SOFTMAX",
    "pattern.attention": f"{_PACKAGE}.written_out:ATTENTION",
    "pattern.gelu": f"{_PACKAGE}.written_out:GELU",
    "pattern.gelu_tanh": f"{_PACKAGE}.written_out:GELU_TANH",
    "pattern.layer_norm": f"{_PACKAGE}.written_out:LAYER_NORM",
    "pattern.masked_attention": f"{_PACKAGE}.written_out:MASKED_ATTENTION",
    "pattern.rms_norm": f"{_PACKAGE}.written_out:RMS_NORM",
    "pattern.softmax": f"{_PACKAGE}.written_out:SOFTMAX",
}

AttributeValue: TypeAlias = bool | int | float | str


@dataclass(frozen=True)
class Argument:
    """One argument of a marked function."""

    name: str
    dtypes: tuple[str, ...]
    """TensorFlow's names of the element types that it may have."""
    shape: tuple[int | str, ...] | None = None
    """The extents of its axes; None for any shape.

    A name stands for any extent, the same wherever it occurs. "..." at the beginning stands for any
    number of axes, which are the same wherever it occurs.
    """
    optional: bool = False
    """Whether a call may end before it."""


@dataclass(frozen=True)
class Attribute:
    """An attribute of the mark: `experimental_implements='name: "f" attr {key: "axis" value {i: 1}}'`."""

    kind: type[bool | int | float | str]
    default: AttributeValue | None = None
    """None if it must be given."""


@dataclass(frozen=True)
class Fusion:
    """An implementation, and the interface that marked functions must have."""

    name: str
    arguments: tuple[Argument, ...]
    build: Callable[..., Any]
    """Computes the results with TensorFlow, from a tensor for each argument that is given, and all
    attributes as keywords. A ValueError means that it cannot, and why. Results are a tensor or a list of tensors, as those of the marked function."""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    needs_results: bool = False
    """Whether `build` also takes the shapes of the wanted results, as the keyword `results`."""
    pattern: Pattern | None = None
    """Operations that it replaces in graphs where nobody marked a function. Captures have the names of arguments, and
    parameters those of attributes. The names of such fusions, and of no others, begin with `pattern.`."""


class Provider(JsonRecord):
    """Who implements a name."""

    name: str
    target: str
    """Where the `Fusion` is: `module:object`."""
    distribution: str
    version: str
    """Keys contain it: other code under the same version would not be noticed."""

    def __str__(self) -> str:
        return _OURS if self.distribution == _OURS else f"{self.distribution} {self.version}"


class Replaced(JsonRecord):
    """A fusion in a compiled model."""

    name: str
    provider: str
    calls: int
    """Calls in the graph that it replaces."""


def registered(
    entries: Iterable[metadata.EntryPoint] | None = None,
) -> Mapping[str, Provider]:
    """The fusions on this machine, by name; nothing is imported.

    Args:
        entries: Entry points of the group; by default those of all installed distributions.

    Raises:
        EnvironmentProblemError: Two distributions implement the same name.
    """
    if entries is None:
        return _registered.get(
            GROUP, packages_mark, lambda: registered(metadata.entry_points(group=GROUP))
        )
    providers = {
        name: Provider(name=name, target=target, distribution=_OURS, version=_REVISION)
        for name, target in _SHIPPED.items()
    }
    for entry in entries:
        distribution = getattr(entry, "dist", None)
        provider = Provider(
            name=entry.name,
            target=entry.value,
            distribution=one_line(distribution.name if distribution else "unknown"),
            version=one_line(distribution.version if distribution else "0"),
        )
        known = providers.setdefault(entry.name, provider)
        if known != provider:
            raise EnvironmentProblemError(
                f"{known} and {provider} both implement {one_line(entry.name)!r}, and modelwheel cannot "
                f"choose: uninstall one",
                code="MW727",
            )
    return providers


_registered: Remembered[Mapping[str, Provider]] = Remembered()


def composite_name(name: str, version: int) -> str:
    """The name of a fusion for a composite of StableHLO: versions later than 0 are part of it."""
    return f"{name}@{version}" if version else name


def is_pattern(name: str) -> bool:
    """Whether a name is that of a pattern, which is found in a graph without a mark."""
    return name.startswith(_PATTERNS)


def chosen(
    marked: Iterable[str], wanted: Collection[str] | None, known: Mapping[str, Provider]
) -> tuple[Provider, ...]:
    """The implementations for the names that a model has marked, and for wanted patterns, sorted by name.

    Args:
        marked: The names, also those of composites.
        wanted: The names that may be replaced; None for all that authors have marked.
        known: What is registered.
    """
    if wanted is None:
        names = {name for name in marked if not name.startswith(ON_REQUEST)}
    else:
        names = {name for name in wanted if name in marked or is_pattern(name)}
    return tuple(known[name] for name in sorted(names) if name in known)


def check_fusions(
    marked: Mapping[str, int],
    composites: Mapping[str, int],
    wanted: Collection[str] | None,
    known: Mapping[str, Provider],
) -> Iterator[Finding]:
    """The findings for the author of a spec about the fusions that can replace something in the model.

    Args:
        marked: How many functions of the signature are marked with each name.
        composites: How many composites of StableHLO have each name.
        wanted: `compilation.fusions` of the spec.
        known: What is registered.
    """
    named = {*marked, *composites}
    yield from _check_wanted(named, wanted or (), known)
    applied = {provider.name: provider for provider in chosen(named, wanted, known)}
    for name, functions in sorted(marked.items()):
        what = "layer" if name.startswith(LAYERS) else "function"
        shown = f"{count(functions, what)} marked with {one_line(name)!r}"
        if name in applied:
            yield Finding("note", "fusion", f"{shown}: calls are replaced by {applied[name]}")
        elif name in known:
            yield _could_be_replaced(shown, name, known[name])
        elif not name.startswith(LAYERS):
            yield Finding(
                "note",
                "fusion",
                f"{shown}: compiled as they are, because nothing is registered for it",
            )
    for name, number in sorted(composites.items()):
        shown = f"{count(number, 'composite')} {one_line(name)!r}"
        if name in applied:
            yield Finding("note", "fusion", f"{shown}: replaced by {applied[name]}")
        elif name in known:
            yield _could_be_replaced(shown, name, known[name])
        else:
            yield Finding(
                "note", "fusion", f"{shown}: decomposed, because nothing is registered for it"
            )


def _could_be_replaced(shown: str, name: str, provider: Provider) -> Finding:
    return Finding(
        "note",
        "fusion",
        f"{shown} could be replaced by {provider}",
        f"for that, add {name!r} to compilation.fusions",
    )


def _check_wanted(
    named: Collection[str], wanted: Iterable[str], known: Mapping[str, Provider]
) -> Iterator[Finding]:
    """The problems of the names in `compilation.fusions`."""
    for name in wanted:
        place = ("compilation", "fusions")
        if name not in known:
            yield Finding(
                "error",
                "unknown-fusion",
                f"nothing is registered for {name!r}",
                f"correct compilation.fusions, or install the package that implements it: {suggest(name, known)}",
                place,
            )
        elif name not in named and not is_pattern(name):
            yield Finding(
                "warning",
                "unused-fusion",
                f"no function or composite of the signature is marked with {name!r}",
                "remove it from compilation.fusions",
                place,
            )
