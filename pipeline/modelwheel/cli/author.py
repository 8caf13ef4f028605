"""Commands for a model's author: from a model to a wheel for this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import extras
from ..api.settings import open_store
from ..errors import UsageError
from . import completion
from .app import AUTHOR, app
from .clusters import Cluster, find_cluster
from .models import load_any
from .options import (
    AsJson,
    ChangedSince,
    JsonEvents,
    MetricsPort,
    OnBranch,
    OptionalSpecsOrModels,
    Shard,
    Tag,
    build_rules,
    refuse_together,
)
from .output import print_json, say, tell
from .sandboxes import SandboxMode, open_sandbox
from .stores import with_store

if TYPE_CHECKING:
    from ..sandbox.policy import Policy
    from ..spec import Spec


@app.command(
    rich_help_panel=AUTHOR,
    examples=[
        "modelwheel new digits --model saved_models/digits",
        "modelwheel new digits --model digits.onnx --out model_specs",
    ],
)
@with_store
def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the model, such as `my-model`.")
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="PATH|URL",
            autocompletion=completion.models,
            help="The model: a SavedModel's directory, the file of another format, or an https://, s3://, gs:// or hf:// address.",
        ),
    ],
    signature: Annotated[
        str, typer.Option(metavar="KEY", help="The signature to compile.")
    ] = "serving_default",
    directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where to write NAME.yaml.")
    ] = Path("model_specs"),
    sandbox: SandboxMode = None,
    as_json: AsJson = False,
) -> None:
    """Create a commented spec from a model."""
    extras.require("build", "`modelwheel new`", advise="compile")
    from ..engine.new_spec import write_spec
    from .display.progress import BuildDisplay

    store, chosen = open_store(), open_sandbox(sandbox)
    with BuildDisplay(results=False) as display:
        shared = build_rules().bindings == "shared"
        path = write_spec(name, model, signature, directory, store, chosen, display, shared=shared)
    if as_json:
        print_json({"spec": path})
        return
    say(f"wrote {path}; next: modelwheel check {path}")


Lenient = Annotated[
    bool,
    typer.Option(
        "--lenient",
        help="Only warn about tolerances, rows and ranges beyond what a build accepts.",
    ),
]


@app.command(
    rich_help_panel=AUTHOR,
    examples=[
        "modelwheel check model_specs/digits.yaml",
        "modelwheel check --spec-only model_specs",
        "modelwheel check --supported",
    ],
)
@with_store
def check(
    specs: OptionalSpecsOrModels = None,
    spec_only: Annotated[
        bool, typer.Option("--spec-only", help="Check the files, not their models.")
    ] = False,
    released_once: Annotated[
        bool,
        typer.Option(
            "--released-once",
            help="Fail if a spec differs from the one released under its tag NAME-VERSION.",
        ),
    ] = False,
    on_branch: OnBranch = None,
    changed_since: ChangedSince = None,
    tag: Tag = None,
    shard: Shard = None,
    lenient: Lenient = False,
    ops: Annotated[
        bool,
        typer.Option("--ops", help="Show signatures and operations of each model."),
    ] = False,
    supported: Annotated[
        bool,
        typer.Option(
            "--supported",
            help="List every operation that can be compiled, with its element types; takes no SPEC.",
        ),
    ] = False,
    cluster: Cluster = None,
    json_events: JsonEvents = None,
    metrics_port: MetricsPort = None,
    sandbox: SandboxMode = None,
    as_json: AsJson = False,
) -> None:
    """Validate specs and check that their models can be compiled.

    Each is compiled for its smallest batch size and the lowest CPU level, which the next build need not do again.
    A model that has no spec yet is checked as `modelwheel new` would describe it.
    """
    specs = specs or []
    if supported:
        options: dict[str, object] = {"SPEC": specs, "--spec-only": spec_only, "--lenient": lenient}
        options |= {"--released-once": released_once, "--on-branch": on_branch, "--ops": ops}
        options |= {"--changed-since": changed_since, "--tag": tag, "--shard": shard}
        options |= {"--cluster": cluster}
        options |= {"--json-events": json_events, "--metrics-port": metrics_port}
        refuse_together("--supported", options, "it reads no spec")
        _print_supported(sandbox, as_json)
        return
    if not specs:
        raise UsageError("nothing to check: name spec files, or list operations with --supported")
    if ops:
        refuse_together("--ops", {"--json": as_json}, "JSON has them")
    if spec_only:
        options = {"--sandbox": sandbox, "--lenient": lenient, "--ops": ops}
        options |= {"--cluster": cluster}
        options |= {"--json-events": json_events, "--metrics-port": metrics_port}
        refuse_together("--spec-only", options, "it reads no model")
    of_specs = {
        "--spec-only": spec_only,
        "--released-once": released_once,
        "--on-branch": on_branch,
    }
    loaded = load_any(specs, sandbox, changed_since, tag, shard, only_specs=of_specs)
    if on_branch:
        from ..release.selection import require_on_branch

        require_on_branch(loaded, on_branch, tag)
    if released_once:
        from ..release.selection import require_released_once

        require_released_once(loaded)
    if spec_only:
        _print_valid(loaded, as_json)
        return
    extras.require("build", "checking models", advise="compile")
    from ..config import load_config
    from ..engine.check_models import check_models
    from ..sandbox.choose import UNUSED
    from ..telemetry.observing import observe
    from .display.annotations import annotate, of_checked
    from .display.progress import BuildDisplay
    from .display.tables import print_checked

    where = find_cluster(cluster, sandbox)
    box = UNUSED if where is not None else open_sandbox(sandbox)
    store, limits = open_store(), load_config().limits
    with (
        BuildDisplay(results=False) as display,
        observe(display, "modelwheel check", json_events, metrics_port, tell) as reporter,
    ):
        checked = check_models(
            loaded, store, box, reporter, limits=limits, lenient=lenient, cluster=where
        )
    if as_json:
        print_json({"problems": [], "models": checked})
    else:
        print_checked(checked, ops=ops)
    annotate(of_checked(checked))
    raise typer.Exit(next((model.exit_code for model in checked if model.exit_code), 0))


def _print_supported(sandbox: Policy | None, as_json: bool) -> None:
    extras.require("build", "listing operations", advise="compile")
    from ..engine.check_models import list_supported
    from ..util.watching import step
    from .display.progress import BuildDisplay
    from .display.tables import print_supported

    with BuildDisplay(results=False) as display, step("asking TensorFlow", display):
        supported = list_supported(open_store(), open_sandbox(sandbox))
    if as_json:
        print_json(supported)
    else:
        print_supported(supported)


def _print_valid(specs: Sequence[Spec], as_json: bool) -> None:
    from ..spec.package import STATE_LICENSE, UNKNOWN_LICENSE
    from ..util.words import count
    from .display.annotations import Annotation, annotate

    if as_json:
        print_json({"problems": []})
        return
    for spec in specs:
        if spec.package.lacks_license:
            say(f"warning: {spec.path}: {UNKNOWN_LICENSE}: {STATE_LICENSE}", err=True)
            warning = f"{UNKNOWN_LICENSE}: {STATE_LICENSE}"
            annotate([Annotation("warning", warning, spec.model.name, spec.path, 1)])
    say(f"{count(len(specs), 'spec')} OK")
