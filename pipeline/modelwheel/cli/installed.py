"""The command that lists installed models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import MAINTENANCE, app
from .options import AsJson
from .output import print_json, say, tell


@app.command("list", rich_help_panel=MAINTENANCE, examples=["modelwheel list"])
def list_(
    python: Annotated[
        Path | None,
        typer.Option(
            metavar="PYTHON", help="List the models of this interpreter, such as venv/bin/python."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the installed models: name, version, the CPU level that this machine would use, place.

    Reads entry points and manifests; no model is imported.
    """
    from ..levels import best_level
    from ..wheelfile.installed import find_installed

    models = find_installed(None if python is None else _search_path(python))
    rows = [
        {
            "name": model.name,
            "version": model.version,
            "level": best_level(model.levels),
            "path": model.path,
            "distribution": model.distribution,
            "module": model.module,
            "levels": model.levels,
        }
        for model in models
    ]
    if as_json:
        print_json(rows)
        return
    if not rows:
        tell("no models are installed here; --python names another environment")
    shown = [[str(row[key] or "-") for key in ("name", "version", "level", "path")] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        say("  ".join(map(str.ljust, row, widths)).rstrip())


def _search_path(python: Path) -> list[str]:
    """The `sys.path` of another interpreter, without the directory where it is started."""
    from ..errors import UsageError
    from ..util.processes.process import ProcessError, run
    from ..util.records import parse_json

    script = "import json, sys; print(json.dumps(sys.path))"
    try:
        # An absolute path, but not resolved: that of a virtual environment is a link to another one.
        places = parse_json(run([python.absolute(), "-I", "-c", script]).stdout)
    except (ProcessError, ValueError):
        raise UsageError(
            f"--python {python} is not an interpreter; name one such as venv/bin/python"
        ) from None
    return list(map(str, places))
