"""The steps from a spec to a verified wheel, and what the result of each depends on.

A step is a pure function of its inputs: its key is a hash of them, its result a record in the store.
`modelwheel.engine.planning.plan` asks only for keys, `modelwheel.engine.scheduler` also runs what is missing.
In order:

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
from typing import Literal, TypeAlias

from ...request import Request
from .base import Step
from .bundle import BundleStep
from .distribution import ObjectsStep, ProjectStep, RuntimeStep, SdistStep, VerifyStep, WheelStep
from .kernels import KernelsStep
from .model import CompileStep, FreezeStep, InspectStep, ReferenceStep
from .profile import ProfileStep

Goal: TypeAlias = Literal["wheel", "sdist", "bundle", "static-bundle", "project", "profile"]
"""What to build: a verified wheel for this machine, a source distribution for many machines, a bundle for
programs in C and C++, the same for programs that allocate no memory, only the files from which all of them are
made, or a program that times each step."""


def steps_of(
    request: Request, tree: str, provenance: Mapping[str, str], goal: Goal = "wheel"
) -> tuple[Step, ...]:
    """All steps of a request, each after those that it needs.

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
        InspectStep(request, tree),
        ReferenceStep(request, tree),
        *(FreezeStep(request, tree, extent) for extent in request.extents),
        *(
            CompileStep(request, tree, extent, level, platform)
            for platform, level, extent in request.variants
        ),
        ProjectStep(request, tree, provenance, profiled=goal == "profile"),
        *last[goal],
    )
