"""Options and arguments that several commands share, and checks of how options go together."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from ..util.text import one_line
from . import completion
from .output import tell, want_json

if TYPE_CHECKING:
    from ..config import BuildRules
    from ..request import Request
    from ..spec import Spec


Wheels = Annotated[
    list[Path],
    typer.Argument(
        metavar="WHEEL",
        help="Wheels, or directories of them.",
        autocompletion=completion.wheels,
    ),
]
Out = typer.Option(metavar="DIR", help="Where to write the files.")
_SPEC = typer.Argument(
    metavar="SPEC",
    help="Spec files, directories of them, or globs.",
    autocompletion=completion.specs,
)
_SPEC_OR_MODEL = typer.Argument(
    metavar="SPEC|MODEL",
    help="Spec files, directories of them, or globs; or models themselves, such as model.onnx.",
    autocompletion=completion.specs_and_models,
)
Specs = Annotated[list[str], _SPEC]
OptionalSpecs = Annotated[list[str] | None, _SPEC]
SpecsOrModels = Annotated[list[str], _SPEC_OR_MODEL]
OptionalSpecsOrModels = Annotated[list[str] | None, _SPEC_OR_MODEL]
AsJson = Annotated[
    bool, typer.Option("--json", callback=want_json, help="Print the result as JSON.")
]
AsTable = Annotated[
    bool,
    typer.Option(
        "--table",
        help="Show the errors of every output, and those of the model itself.",
    ),
]
OnBranch = Annotated[
    str | None,
    typer.Option(
        metavar="REF",
        help="Fail unless the commit is on this branch, where the specs are still the same; with "
        "--tag, unless it is the tag's commit. A full name, such as refs/remotes/origin/main.",
    ),
]
GithubOutput = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Append the result to this file, for later jobs of a workflow."
    ),
]
GithubRepository = Annotated[
    str | None,
    typer.Option(
        metavar="OWNER/REPO",
        help="The repository on GitHub; by default `repository` in section [release] of modelwheel.toml, then "
        "GITHUB_REPOSITORY, which GitHub Actions sets.",
    ),
]
Levels = Annotated[
    list[str] | None,
    typer.Option(
        "--level",
        metavar="LEVEL",
        autocompletion=completion.levels,
        help="Only this CPU level, such as x86-64-v3; may be repeated.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", metavar="N", min=1, help="Maximum number of worker processes."),
]
JsonEvents = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Append a line of JSON for each event of the build to this file; `modelwheel runs` makes a page of it.",
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        min=0,
        max=65535,
        help="Answer Prometheus at this port while the command runs; by default `port` in section [metrics] of "
        "modelwheel.toml. 0 takes a free one.",
    ),
]
BatchSizes = Annotated[
    list[int] | None,
    typer.Option("--batch-size", metavar="N", help="Only this batch size; may be repeated."),
]
Platforms = Annotated[
    list[str] | None,
    typer.Option(
        "--platform",
        metavar="PLATFORM",
        autocompletion=completion.platforms,
        help="For this platform, such as linux-aarch64; separate several by commas, or repeat.",
    ),
]
Summary = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Append a summary in Markdown to this file."),
]
Comment = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write a comment for a pull request, in Markdown, to this file; its first line marks it.",
    ),
]
ChangedSince = Annotated[
    str | None,
    typer.Option(metavar="REF", help="Only specs changed since this branch left REF (git)."),
]
Shard = Annotated[
    str | None,
    typer.Option(
        metavar="K/N",
        help="Only the K-th of N parts of the specs. K may be any number, such as that of a week or of a run of a "
        "workflow: the parts take turns.",
    ),
]
Tag = Annotated[
    str | None, typer.Option(metavar="NAME-VERSION", help="Only the spec that this tag releases.")
]


@dataclass(frozen=True)
class Observed:
    """Who hears of a build in addition to the display."""

    command: str = "modelwheel build"
    events: Path | None = None
    metrics_port: int | None = None


NOBODY_ELSE = Observed()


def refuse_together(option: str, others: Mapping[str, object], reason: str) -> None:
    """Refuses options that `option` would ignore.

    Args:
        option: The name of an option that was given.
        others: Names of options with their values; None, False and empty lists mean "not given".
        reason: Why they contradict each other.

    Raises:
        UsageError: Any of the others was given.
    """
    names = [name for name, value in others.items() if value]
    if names:
        raise UsageError(
            f"{option} cannot be combined with {', '.join(names)}: {reason}", code="MW201"
        )


def refuse_table_as_json(table: bool, as_json: bool) -> None:
    """Raises UsageError if both `--table` and `--json` were given."""
    if table:
        refuse_together("--table", {"--json": as_json}, "JSON has all of the table")


def refuse_without(option: str, others: Mapping[str, object]) -> None:
    """Refuses options that have an effect only with `option`, which was not given.

    Raises:
        UsageError: Any of the others was given.
    """
    names = [name for name, value in others.items() if value]
    if names:
        verb = "has" if len(names) == 1 else "have"
        raise UsageError(
            f"{', '.join(names)} {verb} an effect only with {option}; add it", code="MW202"
        )


def require_appendable(path: Path | None) -> None:
    """Checks before anything slow that a file can be appended to.

    Raises:
        UsageError: It cannot.
    """
    if path is not None:
        try:
            path.open("a").close()
        except OSError as error:
            raise UsageError(
                f"cannot write to {path}: {error.strerror or error}", code="MW203"
            ) from None


def require_writable(file: Path | None, directory: Path | None) -> None:
    """Checks before anything slow that a file and a directory can be written.

    Raises:
        UsageError: They cannot.
    """
    try:
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        if file is not None:
            file.touch()
    except OSError as error:
        raise UsageError(
            f"cannot write to {error.filename}: {error.strerror or error}", code="MW203"
        ) from None


def append_output(path: Path | None, **outputs: str) -> None:
    """Appends outputs to the file that GitHub Actions reads them from, if there is one."""
    if path is None:
        return
    with path.open("a", encoding="utf-8", newline="\n") as file:
        for name, text in outputs.items():
            # A line that no value can contain ends it: values come from file names and specs.
            end = uuid.uuid4().hex
            file.write(f"{name}<<{end}\n{text}\n{end}\n" if "\n" in text else f"{name}={text}\n")


def hand_on(files: Sequence[Path], out: Path, github_output: Path | None) -> None:
    """Appends `sums`, the SHA-256 of these files in `out`, for the jobs that take the files over.

    Raises:
        UsageError: There is anything else in `out` but the times beside them.
    """
    if github_output is None:
        return
    from ..packaging.checksums import format_checksums
    from ..util.files import digest_file
    from ..wheelfile.reports import BENCH_SUFFIX

    require_only([file.name + ending for file in files for ending in ("", BENCH_SUFFIX)], out)
    hashes = {file.name: digest_file(file).sha256 for file in files}
    append_output(github_output, sums=format_checksums(hashes))


def require_only(names: Collection[str], out: Path) -> None:
    """Refuses a directory with other files than these: jobs of a release hand on whole directories.

    Raises:
        UsageError: There is another file.
    """
    from ..util.text import one_line

    others = sorted(path.name for path in out.glob("*") if path.name not in names)
    if others:
        raise UsageError(
            f"{out} already has {one_line(others[0])}, which this job has not made; pass an empty directory",
            code="MW203",
        )


def make_requests(
    specs: Sequence[Spec],
    levels: Sequence[str] | None,
    batch_sizes: Sequence[int] | None,
    platforms: Sequence[str] | None = None,
) -> list[Request]:
    """The requests for each spec; see `modelwheel.request.make_request`."""
    from ..platforms import PLATFORMS, WHEEL_PLATFORMS
    from ..request import make_request

    allowed = set(PLATFORMS)
    if platforms is not None:
        wheels = build_rules().platforms
        allowed = {WHEEL_PLATFORMS[name].platform for name in wheels} if wheels else allowed
    options = (levels or (), batch_sizes or (), platforms, allowed)
    return [make_request(spec, *options) for spec in specs]


def build_rules() -> BuildRules:
    """The rules for the wheels of releases: the section `build` of modelwheel.toml."""
    from ..config import load_config

    return load_config().build


def load(
    patterns: Sequence[str],
    changed_since: str | None = None,
    tag: str | None = None,
    shard: str | None = None,
) -> list[Spec]:
    """The selected specs. An empty REF, tag or shard, as workflows pass it, means "not given"."""
    from ..spec import find_specs, load_specs

    specs = load_specs(find_specs(patterns))
    if shard:
        from ..release.selection import select_shard

        specs = select_shard(specs, shard)
        names = ", ".join(one_line(spec.path) for spec in specs) or "no spec"
        tell(f"in shard {one_line(shard)}: {names}")
    if tag:
        from ..release.selection import select_tagged

        specs = [select_tagged(specs, tag)]
    if changed_since:
        from ..release.selection import select_changed

        specs = select_changed(specs, changed_since)
        names = ", ".join(one_line(spec.path) for spec in specs) or "no spec"
        tell(f"changed since {one_line(changed_since)}: {names}")
    return specs


def split(names: Sequence[str] | None) -> list[str] | None:
    """The values of an option that takes commas and repetition; None if it was not given."""
    if names is None:
        return None
    return [part.strip() for name in names for part in name.split(",") if part.strip()]
