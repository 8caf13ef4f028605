"""Models that a command line names themselves, where a command takes specs and models."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .. import extras
from ..api.settings import open_store
from ..errors import UsageError
from ..util.text import one_line
from .options import load
from .output import tell
from .sandboxes import open_sandbox

if TYPE_CHECKING:
    from ..sandbox.policy import Policy
    from ..spec import Spec


def load_any(
    patterns: Sequence[str],
    sandbox: Policy | None,
    changed_since: str | None = None,
    tag: str | None = None,
    shard: str | None = None,
    *,
    only_specs: Mapping[str, object] | None = None,
) -> list[Spec]:
    """The specs that are named, and those made for the models that are named themselves.

    Args:
        patterns: What the command line names.
        sandbox: Where models are read.
        changed_since: Only specs changed since this branch left the reference.
        tag: Only the spec that this tag releases.
        shard: Only those of a part of all specs, such as 1/4.
        only_specs: Further options that have a meaning for specs alone, with their values.

    Raises:
        SpecError: A spec has mistakes, or a model is not there.
        UsageError: An option for specs alone was given with a model.
    """
    from ..spec.find import has_both, is_model

    models = [pattern for pattern in patterns if is_model(pattern)]
    for pattern in filter(has_both, patterns):
        tell(f"{one_line(pattern)} has specs and a SavedModel: this reads the specs")
    if not models:
        return load(patterns, changed_since, tag, shard)
    of_specs = {"--changed-since": changed_since, "--tag": tag, "--shard": shard}
    _refuse(models[0], {**of_specs, **(only_specs or {})})
    extras.require("build", "reading models", advise="compile")
    from ..engine.bare_models import BareModel, make_specs, require_different
    from .display.progress import BuildDisplay

    others = [pattern for pattern in patterns if pattern not in models]
    loaded = load(others) if others else []
    named = [BareModel(Path(model)) for model in dict.fromkeys(models)]
    with BuildDisplay(results=False) as display:
        bare = make_specs(named, open_store(), open_sandbox(sandbox), display)
    require_different([*loaded, *bare])
    for spec in bare:
        # Without a key, nobody could read the model, which is said later.
        if "serving_key" in spec.model.model_fields_set:
            tell(_what_a_spec_adds(spec))
    return [*loaded, *bare]


def _refuse(model: str, options: Mapping[str, object]) -> None:
    names = [name for name, value in options.items() if value]
    if names:
        raise UsageError(
            f"{', '.join(names)} is for specs, and {one_line(model)} is a model: leave one of them out, "
            "or write a spec: modelwheel new NAME --model PATH"
        )


def _what_a_spec_adds(spec: Spec) -> str:
    return (
        f"{one_line(spec.path)} has no spec: name {spec.model.name}, version {spec.model.version}, "
        f"licence {spec.package.license} of the code and none of the weights, no pinned source.\n"
        f"To set them: modelwheel new {spec.model.name} --model {shlex.quote(one_line(spec.path))}"
    )
