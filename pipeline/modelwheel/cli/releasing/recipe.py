"""The command that writes a recipe for conda-forge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import UsageError
from ...util.text import one_line
from .. import completion
from ..app import RELEASE, app
from ..options import AsJson, load
from ..output import print_json, say, tell

if TYPE_CHECKING:
    from ...wheelfile.contents import Contents


@app.command(rich_help_panel=RELEASE, examples=["modelwheel recipe model_specs/digits.yaml"])
def recipe(
    model: Annotated[
        str,
        typer.Argument(
            metavar="SPEC|FILE",
            help="A spec, a wheel, or the source distribution itself.",
            autocompletion=completion.specs,
        ),
    ],
    sdist: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The source distribution; by default that of the same name and version beside the wheel, or in dist.",
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where others download the source distribution."),
    ] = None,
    maintainer: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Who maintains the recipe, on GitHub; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Where to write [default: recipes/NAME]."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a recipe for conda-forge: recipe.yaml and build.py, from the source distribution of `modelwheel compile`."""
    from ...engine.delivery import writing_to
    from ...release.conda import write_recipe

    file = sdist or _find_sdist(model)
    if not file.is_file():
        raise UsageError(
            f"there is no file {file}; `modelwheel compile` makes it, or name it by --sdist",
            code="MW209",
        )
    target = out or Path("recipes", file.name.rpartition("-")[0].replace("_", "-"))
    with writing_to(target):
        written = write_recipe(file, target, url=url, maintainers=maintainer or ())
    if as_json:
        print_json(written)
        return
    say(f"wrote {written.path}")
    if written.is_local:
        tell("it names the file of this machine: conda-forge needs --url, where others download it")


def _find_sdist(model: str) -> Path:
    """The source distribution that a spec, a wheel or its own name stands for."""
    if model.endswith(".tar.gz"):
        return Path(model)
    if model.endswith(".whl"):
        from ...wheelfile.contents import open_contents

        path = Path(model)
        return path.with_name(_name_of(open_contents(path)))
    specs = load([model])
    if len(specs) != 1:
        raise UsageError(f"{one_line(model)} names several specs; name one file", code="MW208")
    return Path("dist", f"{specs[0].module}-{specs[0].model.version}.tar.gz")


def _name_of(contents: Contents) -> str:
    described = contents.manifests[0].model
    return f"{described.module}-{described.version}.tar.gz"
