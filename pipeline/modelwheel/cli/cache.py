"""Commands for the store of finished steps: what it holds, what to remove, whether it is sound, and copies of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..api.settings import open_store
from ..errors import StoreError, UsageError
from ..util.places import is_url
from ..util.text import one_line
from . import completion
from .app import MAINTENANCE, Application, Group, app, show_examples
from .options import AsJson, load, make_requests, refuse_together
from .output import print_json, say, tell
from .stores import with_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..store.store import Store
    from ..store.upkeep.garbage import Collected
    from ..store.upkeep.statistics import Statistics
    from ..store.upkeep.whole import Damaged

cache = Application(
    name="cache",
    cls=Group,
    help="Show the build cache and the caches that it reads; remove, check and copy what it holds.",
    epilog=show_examples(["modelwheel cache", "modelwheel cache --remove-unused 30"]),
    invoke_without_command=True,
)
app.add_typer(cache, rich_help_panel=MAINTENANCE)

_DAY = 24 * 3600
_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SHOWN = 20


@cache.callback()
@with_store
def _show(
    context: typer.Context,
    remove_unused: Annotated[
        int | None,
        typer.Option(
            metavar="DAYS",
            min=0,
            help="Remove entries not used for DAYS days, as `modelwheel cache gc --unused DAYS`.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    if context.invoked_subcommand is not None:
        refuse_together(
            f"cache {context.invoked_subcommand}",
            {
                "--remove-unused": remove_unused is not None,
                "--store before it": context.params["store_address"],
                "--json before it": as_json,
            },
            "options of a command follow its name",
        )
        return
    from ..store.upkeep.garbage import collect_garbage
    from ..store.upkeep.summary import describe, summarise

    store = open_store()
    with _telling("removing old entries" if remove_unused is not None else "reading the store"):
        if remove_unused is not None:
            collect_garbage(store, remove_unused * _DAY)
        summary = summarise(store)
    if as_json:
        print_json(summary)
    else:
        say("\n".join(describe(summary)))


@cache.command(
    examples=["modelwheel cache stats", "modelwheel cache stats --store s3://models/store"]
)
@with_store
def stats(as_json: AsJson = False) -> None:
    """Show how much a store holds, by kinds of results and by when they were last used."""
    from ..store.upkeep.statistics import take_statistics

    with _telling("reading the store"):
        statistics = take_statistics(open_store())
    if as_json:
        print_json(statistics)
    else:
        _print_statistics(statistics)


@cache.command(
    examples=[
        "modelwheel cache gc --unused 30 --dry-run",
        "modelwheel cache gc --max-size 200GB --keep model_specs --keep-release dist/*.whl",
    ]
)
@with_store
def gc(
    unused: Annotated[
        int | None,
        typer.Option(
            metavar="DAYS",
            min=0,
            help="Remove results not used for DAYS days; in an object store, for a week more.",
        ),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Remove the least recently used results until the rest needs no more than this, such as 200GB.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            autocompletion=completion.specs,
            help="Keep what builds of these specs use: spec files, directories of them, or globs. Without --unused and "
            "--max-size, remove all other results.",
        ),
    ] = None,
    keep_release: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Keep what these wheels and source distributions were made from: files, or directories of them.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be removed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove results that nobody needs any more.

    What a running build may read stays until it has ended, and files less than a day old may be kept, too.
    """
    from ..store.upkeep.garbage import collect_garbage

    if unused is None and max_size is None and not keep and not keep_release:
        raise UsageError(
            "say what to remove: --unused DAYS or --max-size SIZE; or what to keep of all results: --keep SPEC or "
            "--keep-release FILE",
            code="MW202",
        )
    limit = None if max_size is None else parse_size(max_size)
    store = open_store()
    needed = _needed(store, keep or [], keep_release or [])
    with _telling("looking for what to remove" if dry_run else "removing results"):
        done = collect_garbage(
            store,
            None if unused is None else unused * _DAY,
            max_bytes=limit,
            keep=needed,
            dry_run=dry_run,
        )
    if as_json:
        print_json(done)
    else:
        _print_collected(done, dry_run=dry_run)


@cache.command(examples=["modelwheel cache verify", "modelwheel cache verify --remove"])
@with_store
def verify(
    remove: Annotated[
        bool,
        typer.Option(
            "--remove", help="Remove what is damaged; the next build does that work again."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read every result of a store with all its files, and say which are damaged."""
    from ..store.upkeep.whole import verify_store
    from ..util.words import count, size_text

    opened = open_store()
    with _telling("reading every file") as progressed:
        verified = verify_store(opened, progressed, remove=remove)
    if as_json:
        print_json(verified)
    else:
        what = f"{count(verified.results, 'result')} with {count(verified.contents, 'file')}"
        say(f"read {what}, {size_text(verified.bytes)}, in {one_line(opened.backend.address)}")
    fix = "they were removed" if remove else "remove them by `modelwheel cache verify --remove`"
    _refuse_damaged(verified.damaged, opened, f"{fix}, and their work is done again")


@cache.command(examples=["modelwheel cache copy /srv/modelwheel s3://models/store"])
def copy(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="A directory or the URL of a store.")
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="Where its results are copied.")],
    as_json: AsJson = False,
) -> None:
    """Copy every result of a store that another one lacks; stopped and called again, it goes on.

    Every file is compared with its hash on the way. Signatures of results stay.
    """
    from ..store.opening import open_store as open_address
    from ..store.upkeep.whole import copy_store
    from ..util.words import count, size_text

    if not is_url(source) and not Path(source).is_dir():
        raise UsageError(
            f"{one_line(source)} is not there; name the directory or URL of a store", code="MW203"
        )
    old, new = open_address(source), open_address(target)
    if old.backend.address == new.backend.address:
        raise UsageError(f"{one_line(source)} cannot be copied to itself", code="MW201")
    with _telling("copying results") as progressed:
        done = copy_store(old, new, progressed)
    if as_json:
        print_json(done)
    else:
        say(
            f"copied {count(done.results, 'result')}, {size_text(done.bytes)}, to {one_line(new.backend.address)}; "
            f"{done.there} were there"
        )
    _refuse_damaged(done.damaged, old, "they were not copied")


def parse_size(text: str) -> int:
    """Bytes of a size as people write it, such as `200GB` or `1.5 TB`.

    Raises:
        UsageError: It is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT])B", text.strip())
    if match is None:
        raise UsageError(
            f"--max-size {one_line(text)} is not a size; write a number with kB, MB, GB or TB, such as 200GB",
            code="MW200",
        )
    return round(float(match[1]) * _UNITS[f"{match[2]}B"])


def _needed(store: Store, specs: list[str], files: list[Path]) -> set[str] | None:
    """The keys of the results to keep; None if nothing was said about that."""
    if not specs and not files:
        return None
    from ..engine.keeping import needed_results
    from ..util.words import count

    loaded = load(specs) if specs else []
    # Those of this machine, and those of releases for all platforms.
    requests = [*make_requests(loaded, None, None), *make_requests(loaded, None, None, ())]
    with _telling("looking for what to keep"):
        needed, silent = needed_results(store, requests, list(_distributions(files)))
    if silent:
        tell(
            f"warning: {count(len(silent), 'result')} to keep do not say what they were made from, because an older "
            "version of modelwheel made them: what they were made from may be removed, unless --keep names its spec"
        )
    return needed


def _distributions(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        distributions = sorted(
            file for file in path.iterdir() if file.name.endswith((".whl", ".tar.gz"))
        )
        if not distributions:
            raise UsageError(
                f"{one_line(path)} has no wheels or source distributions", code="MW203"
            )
        yield from distributions


@contextmanager
def _telling(name: str) -> Iterator[Callable[[str], None]]:
    """Shows that something runs; what is yielded says how far it is."""
    from ..util.watching import step
    from .display.progress import BuildDisplay

    with BuildDisplay(results=False) as display, step(name, display):
        yield lambda text: display.progressed(name, text)


def _refuse_damaged(damaged: Sequence[Damaged], store: Store, then: str) -> None:
    """Names what is damaged.

    Raises:
        StoreError: Anything is.
    """
    from ..util.words import count, first_few

    if not damaged:
        return
    for damage in damaged[:_SHOWN]:
        results = f" (of {first_few(damage.results)})" if damage.results else ""
        say(
            f"damaged: {one_line(damage.file)}: {one_line(damage.why)}{one_line(results)}", err=True
        )
    if len(damaged) > _SHOWN:
        say(f"and {len(damaged) - _SHOWN} more; --json lists all", err=True)
    raise StoreError(
        f"{count(len(damaged), 'file')} of the store {one_line(store.backend.address)} cannot be used; {then}",
        code="MW704",
    )


def _print_collected(done: Collected, *, dry_run: bool) -> None:
    from ..util.words import count, size_text

    kinds = ", ".join(f"{number} {one_line(kind)}" for kind, number in done.kinds.items())
    what = f"{count(done.results, 'result')}{f' ({kinds})' if kinds else ''}"
    keeps = f"{count(done.kept, 'result')}, {size_text(done.kept_bytes)}"
    if dry_run:
        say(f"would remove {what}, {size_text(done.bytes)}, and keep {keeps}; nothing was removed")
    else:
        say(f"removed {what} and kept {keeps}; freed {size_text(done.freed)}")
    if done.in_use:
        say(f"kept {count(done.in_use, 'result')} more than asked for: running builds may use them")
    if not dry_run and done.freed < done.bytes:
        say(
            f"{size_text(done.bytes - done.freed)} stay until running builds have ended, and in an object store for a "
            "day; the next `modelwheel cache gc` frees them"
        )


def _print_statistics(statistics: Statistics) -> None:
    from ..util.words import count, size_text

    say(
        f"{count(statistics.results, 'result')} with {count(statistics.contents, 'file')}, {size_text(statistics.bytes)}, in "
        f"{one_line(statistics.address)}"
    )
    if statistics.running:
        say(f"  {count(statistics.running, 'process', 'processes')} use it now")
    if statistics.unneeded_bytes:
        say(
            f"  {size_text(statistics.unneeded_bytes)} that no result needs: `modelwheel cache gc` frees them"
        )
    if statistics.damaged:
        say(
            f"  {count(statistics.damaged, 'result')} cannot be read: see `modelwheel cache verify`"
        )
    for title, groups in (("kind", statistics.kinds), ("last used", statistics.ages)):
        rows = [
            (one_line(name), group.results, size_text(group.bytes))
            for name, group in groups.items()
        ]
        if rows:
            say("")
            _print_columns((title, "results", "size"), rows)


def _print_columns(head: tuple[str, str, str], rows: Sequence[tuple[str, int, str]]) -> None:
    lines = [head, *((name, f"{number:,}", size) for name, number, size in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    for name, number, size in lines:
        say(f"{name:{widths[0]}}  {number:>{widths[1]}}  {size:>{widths[2]}}")
