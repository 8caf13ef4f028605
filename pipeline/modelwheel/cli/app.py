"""The application: what all commands share, and how the process ends.

The one package that talks to a terminal and leaves the process. Heavy modules are imported inside the
commands that need them, so that `--help` stays quick.
"""

from __future__ import annotations

import logging
import signal
import sys
from typing import Annotated

import typer

from .. import __version__
from ..errors import EnvironmentProblemError, ModelwheelError

app = typer.Typer(
    name="modelwheel",
    help="Turn trained TensorFlow models into wheels of machine code.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _InterruptedBuildError(BaseException):
    """Ctrl-C or SIGTERM. Not a KeyboardInterrupt, which Typer would answer without a word."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number


def main() -> None:
    """Runs the command line; the mistakes of its user end in a sentence and an exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        app(prog_name="modelwheel")
    except ModelwheelError as error:
        say_error(str(error))
        sys.exit(error.exit_code)
    except _InterruptedBuildError as interruption:
        typer.echo("interrupted; finished steps are kept, run the command again to go on", err=True)
        sys.exit(interruption.exit_code)
    except OSError as error:
        say_error(f"{error.filename or 'input or output'}: {error.strerror or error}")
        sys.exit(EnvironmentProblemError.exit_code)
    except Exception as error:
        if logging.getLogger().isEnabledFor(logging.DEBUG):
            raise
        say_error(
            f"a fault of modelwheel: {type(error).__name__}: {error}; please report what "
            "`modelwheel --verbose ...` says"
        )
        sys.exit(1)


def _interrupt(number: int, _: object) -> None:
    for again in (signal.SIGINT, signal.SIGTERM):  # tidying up takes a moment and is done once
        signal.signal(again, signal.SIG_IGN)
    raise _InterruptedBuildError(number)


def say_error(sentence: str) -> None:
    typer.echo(f"{typer.style('error', fg='red', bold=True)}: {sentence}", err=True)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"modelwheel {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what is run.")] = False,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    level = logging.DEBUG if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(name)s: %(message)s", stream=sys.stderr)
