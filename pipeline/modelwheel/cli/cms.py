"""The commands of CMS's own tools, `cms_tfaot_compile` and `cmsml_check_aot_compatibility`, with their arguments."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import extras
from ..api.settings import open_store
from ..errors import UnsupportedModelError, UsageError
from ..util.unfinished import temporary_directory
from .app import run_application, show_examples
from .building import run_build
from .options import refuse_without
from .output import log_to_stderr, say
from .sandboxes import open_sandbox

if TYPE_CHECKING:
    from ..cms.tool import Tool
    from ..request import Request

_EVIDENCE = "the command line and the files that it names"


def _application() -> typer.Typer:
    return typer.Typer(
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


compile_app, check_app = _application(), _application()


def compile_main() -> None:
    """Runs `cms_tfaot_compile`."""
    run_application(compile_app, "cms_tfaot_compile", _EVIDENCE)


def check_main() -> None:
    """Runs `cmsml_check_aot_compatibility`."""
    run_application(check_app, "cmsml_check_aot_compatibility", _EVIDENCE)


def _expand(path: Path) -> Path:
    """A path as CMS's tools read it: `~` and variables are those of the shell."""
    return Path(os.path.expandvars(path.expanduser()))


@compile_app.command(
    epilog=show_examples(
        ["cms_tfaot_compile --aot-config aot_config.yaml --output-directory tool --dev"]
    )
)
def tfaot_compile(
    aot_config: Annotated[
        Path,
        typer.Option(
            "--aot-config",
            "-c",
            metavar="FILE",
            help="The AOT configuration, or a spec of modelwheel (YAML or JSON).",
        ),
    ],
    output_directory: Annotated[
        Path,
        typer.Option("--output-directory", "-o", metavar="DIR", help="Where to write the tool."),
    ],
    tool_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the tool; by default tfaot-model-MODEL."),
    ] = None,
    tool_base: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Where scram finds lib and include; by default @TOOL_BASE@ or, with --dev, the output directory.",
        ),
    ] = None,
    dev: Annotated[
        bool,
        typer.Option(
            "--dev",
            metavar="",
            help="For your own release area: make lib/ and include/, fill in the base, and print the next steps.",
        ),
    ] = False,
    additional_flags: Annotated[
        str,
        typer.Option(
            metavar="FLAGS",
            help="--target_triple=TRIPLE and --target_cpu=LEVEL; by default this machine, and all levels.",
        ),
    ] = "",
) -> None:
    """Compile a model ahead of time into a tool of scram, for CMSSW.

    Without --dev all files are in one directory, from which CMSDIST moves them.
    """
    log_to_stderr()
    extras.require("cms", "`cms_tfaot_compile`")
    from ..cms import tool as tools
    from ..cms.request import make_tool_request

    request = make_tool_request(_expand(aot_config), additional_flags)
    out = _expand(output_directory).absolute()
    if tool_name is None:
        tool_name = tools.default_tool_name(request.spec)
    if tool_base is None:
        tool_base = tools.default_tool_base(out) if dev else tools.UNFILLED_BASE
    tool = tools.Tool(request.spec, tools.check_tool_name(tool_name), tool_base, out, dev)
    _write_tool(tool, request)
    if dev:
        say(tools.next_steps(tool, request.batch_sizes))


def _write_tool(tool: Tool, request: Request) -> None:
    from ..cms.tool import write_tool
    from ..engine.build import exit_code
    from ..engine.delivery import writing_to
    from .display.tables import print_failures

    with writing_to(tool.directory):
        tool.directory.mkdir(parents=True, exist_ok=True)
        with temporary_directory("bundle", tool.directory) as scratch:
            results = run_build([request], scratch, "bundle")
            print_failures(results)
            (result,) = results
            if result.bundle is None:
                raise typer.Exit(exit_code(results))
            (platform,) = request.platforms
            write_tool(tool, result.bundle, platform)


_TABLE = "--table"


@check_app.command(epilog=show_examples(["cmsml_check_aot_compatibility saved_models/digits"]))
def check_aot_compatibility(
    model_path: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH",
            help="A SavedModel's directory, the file of another format, or an AOT configuration.",
        ),
    ] = None,
    serving_key: Annotated[
        str | None,
        typer.Option(
            "--serving-key",
            "-k",
            metavar="KEY",
            help="The signature; by default the configuration's, else serving_default.",
        ),
    ] = None,
    table: Annotated[
        bool,
        typer.Option(
            _TABLE,
            "-t",
            metavar="",
            help="Show every operation that can be compiled, not only those of the model.",
        ),
    ] = False,
    table_format: Annotated[
        str, typer.Option("--table-format", "-f", metavar="NAME", help="A format of tabulate.")
    ] = "grid",
    devices: Annotated[
        str, typer.Option("--devices", "-d", metavar="DEVICES", help="cpu, the only one.")
    ] = "cpu",
) -> None:
    """Show which operations of a model can be compiled ahead of time.

    Unlike cmsml's, it fails if one cannot be compiled (exit code 5).
    """
    log_to_stderr()
    _check_devices(devices)
    extras.require("cms", "`cmsml_check_aot_compatibility`")
    from ..cms.compatibility import check_model, check_table_format, show_table
    from ..engine.check_models import list_supported

    check_table_format(table_format)
    if model_path is None:
        refuse_without("PATH", {"--serving-key": serving_key})
        if not table:
            raise UsageError(f"nothing to check: name a model, or list operations with {_TABLE}")
    store, sandbox = open_store(), open_sandbox(None)
    from ..util.watching import step
    from .display.progress import BuildDisplay

    if table:
        with BuildDisplay(results=False) as display, step("asking TensorFlow", display):
            every = [(operation.op, True) for operation in list_supported(store, sandbox).ops]
        say(show_table(every, table_format))
    if model_path is None:
        return
    with BuildDisplay(results=False) as display, step("inspecting the model", display):
        checked = check_model(_expand(model_path), serving_key, store, sandbox)
    if not table:
        say(show_table(checked.operations, table_format))
    say(f"\n{checked.verdict}")
    if checked.incompatible:
        raise typer.Exit(UnsupportedModelError.exit_code)


def _check_devices(devices: str) -> None:
    for device in (part.strip() for part in devices.split(",")):
        if device in ("gpu", "tpu"):
            raise UsageError(
                f"--devices: models are compiled for CPUs alone, so nothing is known about {device}; give cpu"
            )
        if device != "cpu":
            raise UsageError(f"--devices: unknown device {device!r}; give cpu")
