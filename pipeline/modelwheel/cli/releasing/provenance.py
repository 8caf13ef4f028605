"""Commands about where a wheel comes from: sign its provenance, build it again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ... import extras
from ...api.settings import open_store
from ...config import load_config
from ...errors import UsageError
from ...util.text import one_line
from .. import completion
from ..app import RELEASE, app
from ..options import AsJson, refuse_together
from ..output import print_json, say, tell
from ..sandboxes import SandboxMode, open_sandbox
from ..stores import with_store

Distributions = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Wheels, source distributions (.tar.gz) of models, or directories.",
        autocompletion=completion.distributions,
    ),
]


@app.command(rich_help_panel=RELEASE, examples=["modelwheel attest --key signing.pem dist"])
def attest(
    files: Distributions,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The private key to sign with, in PEM format; by default the text of the environment "
            "variable MODELWHEEL_PROVENANCE_KEY.",
        ),
    ] = None,
    builder: Annotated[
        str | None,
        typer.Option(
            metavar="URI", help="Who builds; by default the workflow that GitHub Actions runs."
        ),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Sign nothing: write the attestation that a workflow made of these files (a Sigstore bundle) beside each.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sign what wheels and source distributions were made from (in-toto, SLSA provenance v1).

    The statement is written beside each file, as FILE.intoto.jsonl.
    """
    extras.require("publish", "`modelwheel attest`")
    if bundle is not None:
        refuse_together("--bundle", {"--key": key, "--builder": builder}, "it is signed already")
        _print_written(_add_bundle(files, bundle), as_json)
        return
    from ...provenance.signing import find_private_key, sign, write_bundle
    from ...provenance.statement import find_builder, find_invocation, make_statement
    from ...util.watching import each
    from ...wheelfile.collect import find_distributions
    from ...wheelfile.contents import open_contents
    from ..display.progress import BuildDisplay

    private_key = find_private_key(key)
    who, run = find_builder(builder), find_invocation()
    # All are signed before any is written: a mistake leaves no half of the statements behind.
    with BuildDisplay(results=False) as display:
        signed = [
            (path, sign(make_statement(open_contents(path), who, run).to_json(), private_key))
            for path in each(find_distributions(files), lambda path: path.name, display)
        ]
    _print_written([(path, write_bundle(path, [line])) for path, line in signed], as_json)


def _add_bundle(files: Sequence[Path], bundle: Path) -> list[tuple[Path, Path]]:
    """Writes a bundle beside each file that it is about, after the statements that are there."""
    from ...provenance.identities import split_by_subject
    from ...provenance.signing import bundle_path, read_lines, write_bundle
    from ...util.files import digest_file
    from ...wheelfile.collect import find_distributions

    line, hashes = split_by_subject(bundle)
    distributions = find_distributions(files)
    for path in distributions:
        if digest_file(path).sha256 not in hashes:
            raise UsageError(f"{bundle} says nothing about {one_line(path.name)}, as it is here")
    written = []
    for path in distributions:
        there = bundle_path(path)
        old = [text.decode().strip() for text in read_lines(there)] if there.exists() else []
        written.append((path, write_bundle(path, [*(text for text in old if text != line), line])))
    return written


def _print_written(written: Sequence[tuple[Path, Path]], as_json: bool) -> None:
    if as_json:
        print_json([{"file": path, "statement": statement} for path, statement in written])
        return
    for _, statement in written:
        say(statement)


@app.command(
    rich_help_panel=RELEASE, examples=["modelwheel rebuild dist/model_digits-1.0.0.tar.gz"]
)
@with_store
def rebuild(
    files: Distributions,
    spec: Annotated[
        Path | None,
        typer.Option(
            metavar="SPEC",
            autocompletion=completion.specs,
            help="The spec; by default the one in model_specs/ with the same digest.",
        ),
    ] = None,
    use_cache: Annotated[
        bool,
        typer.Option("--use-cache", help="Use results that the store already has."),
    ] = False,
    sandbox: SandboxMode = None,
    as_json: AsJson = False,
) -> None:
    """Build wheels and source distributions again from their sources and compare every byte.

    Says "same bytes", or names the first difference. What this machine cannot build again, such as a wheel for
    another platform, is an error.
    """
    extras.require("build", "`modelwheel rebuild`", advise="compile")
    from ...provenance.replay import choose_store, require_rebuilt, trace
    from ...wheelfile.collect import find_distributions
    from ...wheelfile.contents import open_contents
    from ..display.progress import BuildDisplay

    results, chosen = [], open_sandbox(sandbox)
    for path in find_distributions(files):
        with (
            choose_store(open_store(), recompile=not use_cache) as store,
            BuildDisplay() as display,
        ):
            links = trace(open_contents(path), store, chosen, display, spec, load_config().limits)
        results.append((path, links))
        if not as_json and links[-1].state == "ok":
            say(f"{path.name}: {one_line(links[-1].found)}")
    if as_json:
        print_json([{"file": path, "rebuilt": links[-1]} for path, links in results])
    require_rebuilt(results)


def require_trusted(wheels: Sequence[Path], policy: Path) -> None:
    """Checks the signed provenance of model wheels; prints who built each one and from what.

    Raises:
        UsageError: The policy has mistakes.
        ProvenanceError: A wheel has no provenance that satisfies it.
    """
    extras.require("publish", "`modelwheel verify --provenance`")
    from ...provenance.policy import load_policy, require_provenance
    from ...wheelfile.collect import find_model_wheels
    from ...wheelfile.contents import open_contents

    rules = load_policy(policy)
    for path in find_model_wheels(wheels):
        attested = require_provenance(open_contents(path), rules)
        tell(f"{path.name}: built by {one_line(attested.builder)} from {one_line(attested.source)}")
