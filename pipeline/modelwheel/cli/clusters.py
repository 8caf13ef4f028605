"""The option `--cluster`, and the command that starts a worker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import extras
from ..api.settings import find_sandbox_rules
from ..config import FILE_NAME, find_config, load_config
from ..errors import UsageError
from .app import RELEASE, app
from .options import AsJson, refuse_together
from .output import print_json, tell

if TYPE_CHECKING:
    from ..engine.cluster.address import OnCluster, Target, Tls
    from ..sandbox.policy import Policy

_OFF = "off"

Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run the steps on a Dask cluster: tcp://HOST:PORT, tls://HOST:PORT, or local:N for N worker processes here. "
        "By default `cluster.address` in modelwheel.toml, else off.",
    ),
]


def find_cluster(
    option: str | None, sandbox: Policy | None, others: Mapping[str, object] | None = None
) -> OnCluster | None:
    """The cluster that an option names, else `modelwheel.toml`; None if steps run on this machine.

    Args:
        option: The option.
        sandbox: Whether models must run in a sandbox.
        others: Options that have no meaning on a cluster, with their values.

    Raises:
        ClusterError: The address is wrong.
        UsageError: One of the others was given.
        EnvironmentProblemError: Dask is not installed.
    """
    rules = load_config().cluster
    address = option or rules.address
    if not address or address == _OFF:
        return None
    advice = "" if option else f"; --cluster {_OFF} runs the steps here"
    refuse_together("--cluster", others or {}, f"steps run on other machines{advice}")
    from ..engine.cluster.address import OnCluster

    policy, limits = find_sandbox_rules(sandbox)
    return OnCluster(_target(address), policy, limits)


def _target(address: str) -> Target:
    from ..engine.cluster.address import parse_target

    target = parse_target(address, _tls(), load_config().cluster.resources)
    extras.require("cluster", "--cluster")
    return target


def _tls() -> Tls | None:
    """The files of the configuration, which names all or none."""
    from ..engine.cluster.address import Tls

    rules, config = load_config().cluster, find_config(Path().absolute())
    names = (rules.tls_ca_file, rules.tls_cert, rules.tls_key)
    files = [name for name in names if name is not None]
    if not files or config is None:
        return None
    if len(files) != len(names):
        raise UsageError(
            f"[cluster] in {FILE_NAME} needs all of `tls_ca_file`, `tls_cert` and `tls_key`, or none",
            code="MW205",
        )
    return Tls(*(config.parent / name for name in files))


@app.command(
    rich_help_panel=RELEASE,
    examples=[
        "modelwheel worker tcp://scheduler:8786",
        "modelwheel worker --processes 2 --threads 8 --memory 64 tls://scheduler:8786",
    ],
)
def worker(
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS", help="The Dask scheduler: tcp://HOST:PORT or tls://HOST:PORT."
        ),
    ],
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Worker processes, each with a TensorFlow; by default one."
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Steps at once in each process; by default all cores."
        ),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            metavar="GB", min=0.1, help="Memory for all steps; by default what is free now."
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The worker's name in messages; by default its machine's."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Run steps of builds for a Dask cluster, until Ctrl-C.

    It says what this machine has: platform, CPU levels, sandbox, memory, and versions of TensorFlow, compiler and wheel template.
    If the scheduler ends, the worker waits for it. With --json, what the machine has is printed first. TLS files and further resources are those of section cluster in modelwheel.toml.
    """
    target = _target(address)
    if not target.address:
        raise UsageError("a worker needs the address of a scheduler, such as tcp://scheduler:8786")
    extras.require("build", "a worker", advise="compile")
    from ..engine.cluster.start import Machine, default_machine, run_workers
    from ..workers.pool import available_memory

    count, each = default_machine(processes, threads)
    memory_bytes = available_memory() if memory is None else round(memory * 1e9)
    if as_json:
        from ..engine.cluster.declaration import declare

        print_json(declare(memory_bytes, target.resources).model_dump(mode="json"))
    run_workers(target, Machine(count, each, memory_bytes, name), tell)
