"""Options and arguments that several commands have, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..request import Request
    from ..spec import Spec

Specs = Annotated[
    list[str], typer.Argument(metavar="SPEC...", help="Spec files, directories of them, or globs.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Targets = Annotated[
    list[str] | None, typer.Option("--target", help="Only this CPU level; may be repeated.")
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Worker processes at most.")]
BatchSizes = Annotated[
    list[int] | None, typer.Option("--batch-size", help="Only this batch size; may be repeated.")
]
Platforms = Annotated[
    list[str] | None,
    typer.Option(
        "--platform",
        help="For this platform, such as linux-aarch64; several by commas or repeated.",
    ),
]
Summary = Annotated[Path | None, typer.Option(help="Append a summary in Markdown to this file.")]
ChangedSince = Annotated[
    str | None,
    typer.Option(
        metavar="REF", help="Only specs that this branch changed since it left REF (git)."
    ),
]
Tag = Annotated[
    str | None, typer.Option(metavar="NAME-VERSION", help="Only the spec that this tag releases.")
]


def make_requests(
    specs: Sequence[Spec],
    targets: Sequence[str] | None,
    batch_sizes: Sequence[int] | None,
    platforms: Sequence[str] | None = None,
) -> list[Request]:
    from ..request import make_request

    return [make_request(spec, targets or (), batch_sizes or (), platforms) for spec in specs]


def load(
    patterns: Sequence[str], changed_since: str | None = None, tag: str | None = None
) -> list[Spec]:
    """The specs that are meant; an empty REF or tag, as workflows pass it, is none."""
    from ..spec import find_specs, load_specs

    specs = load_specs(find_specs(patterns))
    if tag:
        from ..release.selection import select_tagged

        specs = [select_tagged(specs, tag)]
    if changed_since:
        from ..release.selection import select_changed

        specs = select_changed(specs, changed_since)
        names = ", ".join(str(spec.path) for spec in specs) or "no spec"
        typer.echo(f"changed since {changed_since}: {names}", err=True)
    return specs


def split(names: Sequence[str] | None) -> list[str] | None:
    """What an option named, by commas or repeatedly; None where it was not given."""
    if names is None:
        return None
    return [part.strip() for name in names for part in name.split(",") if part.strip()]


def print_json(value: object) -> None:
    from ..util.records import as_json

    typer.echo(json.dumps(as_json(value), indent=2))
