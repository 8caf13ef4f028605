"""The steps from a spec to a verified wheel, and what the result of each depends on.

A step is a pure function of its inputs: its key is a hash of them, its result a record in the store.
`modelwheel.engine.planning.plan` asks only for keys, `modelwheel.engine.scheduler` also runs what is missing.
Of a model that decides its batch sizes itself, they are known after two steps:

    inspect -> sizing -> sizes

Of one whose layers compute with narrower numbers, `quantize` is between inspecting and whatever else reads the model. In order:

    inspect -> reference -> compile (each platform, level, extent) -> project -> wheel -> verify
            -> freeze ----->                                          |          (runtime) ->
                         -> objects ---------------------------------------> wheel, (runtime)
                                                                      -> kernels -> wheel
                                                                      -> sdist
                                                                      -> bundle
                                                                      -> profile
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from ...request import Request
from ...store.records import Record
from ...store.store import Store
from .base import Records, Step
from .bundle import BundleStep
from .distribution import ObjectsStep, ProjectStep, RuntimeStep, SdistStep, VerifyStep, WheelStep
from .kernels import KernelsStep
from .model import (
    CompileStep,
    FreezeStep,
    InspectStep,
    QuantizeStep,
    ReferenceStep,
    SizesStep,
    SizingStep,
    read_sizes,
)
from .profile import ProfileStep

Goal: TypeAlias = Literal["wheel", "sdist", "bundle", "static-bundle", "project", "profile"]
"""What to build: a verified wheel for this machine, a source distribution for many machines, a bundle for
programs in C and C++, the same for programs that allocate no memory, only the files from which all of them are
made, or a program that times each step."""


def first_steps(request: Request, tree: str) -> tuple[Step, ...]:
    """The steps that must have run before the batch sizes of a request are known."""
    quantizing = (QuantizeStep(request, tree),) if request.spec.package.compute else ()
    deciding = (SizingStep(request, tree), SizesStep(request, tree))
    return (
        InspectStep(request, tree),
        *quantizing,
        *(deciding if request.sizes_by_model else ()),
    )


def decided(request: Request, store: Store, records: Records) -> Request:
    """A request with the batch sizes that were decided by the model, after all of `first_steps` that could run."""
    if not request.sizes_by_model:
        return request
    record = records.get(f"{request.name}/{SizesStep.kind}")
    if record is None:
        return request.with_sizes(request.batch_sizes)
    chosen = read_sizes(store, record)
    return replace(
        request, batch_sizes=tuple(chosen.batch_sizes), default_rows=chosen.compared_rows
    )


def known_request(request: Request, tree: str, store: Store) -> Request:
    """A request with the batch sizes that were decided by the model, if that is in the store. Nothing runs."""
    records: dict[str, Record] = {}
    for step in first_steps(request, tree) if request.sizes_by_model else ():
        record = store.peek(step.key(store, records))
        if record is None:
            return request
        records[step.name] = record
    return decided(request, store, records)


def steps_of(
    request: Request, tree: str, provenance: Mapping[str, str], goal: Goal = "wheel"
) -> tuple[Step, ...]:
    """All steps of a request with the batch sizes that it has now, each after those that it needs.

    Compiling waits for the reference: a model that TensorFlow cannot evaluate is refused before
    workers are busy with it.
    """
    shared = request.spec.package.bindings == "shared"
    runtime = (RuntimeStep(request, tree),) if shared else ()
    last: dict[Goal, tuple[Step, ...]] = {
        "wheel": (
            ObjectsStep(request, tree),
            KernelsStep(request, tree),
            WheelStep(request, tree),
            *runtime,
            VerifyStep(request, tree),
        ),
        "sdist": (SdistStep(request, tree),),
        "bundle": (BundleStep(request, tree),),
        "static-bundle": (BundleStep(request, tree, static_arena=True),),
        "project": (),
        "profile": (ProfileStep(request, tree),),
    }
    return (
        *first_steps(request, tree),
        ReferenceStep(request, tree),
        *(FreezeStep(request, tree, extent) for extent in request.extents),
        *(
            CompileStep(request, tree, extent, level, platform)
            for platform, level, extent in request.variants
        ),
        ProjectStep(request, tree, provenance, profiled=goal == "profile"),
        *last[goal],
    )
