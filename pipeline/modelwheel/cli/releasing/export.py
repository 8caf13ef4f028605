"""Commands that write what the build and package systems of others need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...util.text import one_line
from ..app import RELEASE, Application, Group, app
from ..options import AsJson, load
from ..output import print_json, say

export = Application(
    name="export",
    cls=Group,
    help="Write files for the build systems of others.",
    no_args_is_help=True,
)
app.add_typer(export, rich_help_panel=RELEASE)


@export.command(examples=["modelwheel export cmsdist model_specs/cms-deepcore.yaml --out cmsdist"])
def cmsdist(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A spec file.")],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Where to write; a checkout of CMSDIST gets the line in its list of models too.",
        ),
    ] = Path(),
    data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The repository of CMSDATA that has the model, such as RecoTauTag-TrainingFiles.",
        ),
    ] = None,
    aot_config: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Where that repository has the configuration; by default beside the model.",
        ),
    ] = None,
    branch: Annotated[
        str,
        typer.Option(metavar="NAME", help="The branch of the repository that has the commit."),
    ] = "master",
    as_json: AsJson = False,
) -> None:
    """Write tfaot-model-NAME.spec, with which CMSDIST builds a model."""
    from ...cms.cmsdist import MODELS_FILE, export_cmsdist
    from ...engine.delivery import writing_to
    from ...errors import UsageError

    loaded = load([spec])
    if len(loaded) != 1:
        raise UsageError(f"{one_line(spec)} names several specs; name one file", code="MW208")
    with writing_to(out):
        done = export_cmsdist(loaded[0], out, data=data, aot_config=aot_config, branch=branch)
    if as_json:
        print_json(done)
        return
    say(f"wrote {done.spec_file}")
    if done.listed:
        say(f"{out / MODELS_FILE} has the line: {done.line}")
    else:
        say(f"line for {MODELS_FILE}: {done.line}")
    if done.config is not None:
        say(f"wrote {done.config}")
        say(f"{done.repository} needs it, or one like it, at that commit as {done.config_place}")


@export.command(examples=["modelwheel export bazel --out third_party/rules_modelwheel"])
def bazel(
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="DIR", help="A new directory for the repository."),
    ] = Path("third_party/rules_modelwheel"),
    as_json: AsJson = False,
) -> None:
    """Write the repository rules_modelwheel, whose modelwheel_library compiles models in a build by Bazel.

    Its tf_library takes what that of TensorFlow takes. docs/bundles.md has an example.
    """
    from ...packaging.bazel import write_rules

    write_rules(out)
    if as_json:
        print_json({"repository": out})
        return
    say(f'{out}: load("@rules_modelwheel//modelwheel:defs.bzl", "modelwheel_library")')
