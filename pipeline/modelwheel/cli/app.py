"""The application: what all commands share, and how the process ends.

Only `modelwheel.cli` writes to the terminal and ends the process. Commands import heavy modules
inside their functions so that `--help` stays quick.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandFunctionType

from .. import __version__, errors, project
from ..api.settings import close_stores
from ..errors import EnvironmentProblemError, ModelwheelError, UsageError
from ..util.processes import process
from ..util.text import one_line
from .output import (
    be_quiet,
    lacks_json,
    log_to_stderr,
    print_json,
    say,
    tolerate_encodings,
)

AUTHOR, RELEASE, MAINTENANCE = "Model author", "Release", "Maintenance"
"""The panels of `modelwheel --help`."""


def _exit_codes() -> str:
    """The exit codes of all error classes as a table."""
    classes = {
        value
        for module in (errors, process)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, ModelwheelError) and value.exit_code > 1
    }
    rows = [(0, "Success."), (1, "Internal error; `modelwheel doctor`: a tool is missing.")]
    rows += [(error.exit_code, (error.__doc__ or "").partition("\n")[0]) for error in classes]
    rows += [(128 + signal.SIGINT, "Interrupted by Ctrl-C."), (128 + signal.SIGTERM, "Terminated.")]
    lines = [
        textwrap.fill(f"{code:>5}  {text}", width=76, subsequent_indent=" " * 7)
        for code, text in sorted(rows)
    ]
    explained = (
        "`modelwheel explain CODE` explains the code at the end of a message, such as MW302."
    )
    return "\n".join(["Exit codes:", *lines, "", explained])


class _Plain:
    """Help without the types of Python: `SPEC`, not `{SPEC}` or `SPEC <list[str]>`, and no `--help <bool>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if parameter.param_type_name == "argument":
                # Which versions of Typer ask depends on them; others show no type of an argument.
                parameter.display_type_rich = lambda ctx: None  # noqa: ARG005
            elif parameter.is_flag and parameter.metavar is None:
                parameter.metavar = ""
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [piece.replace("{", "").replace("}", "") for piece in pieces]


class _Command(_Plain, TyperCommand):
    pass


class Group(_Plain, TyperGroup):
    """Commands below one name."""


class Application(typer.Typer):
    """Commands whose help is plain, with examples at its end."""

    def command(
        self, name: str | None = None, *, examples: Sequence[str] = (), **options: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """A decorator, as `Typer.command`.

        Args:
            name: The name of the command; by default that of its function.
            examples: Command lines that the help shows.
            options: Those of Typer.
        """
        return super().command(name, cls=_Command, epilog=show_examples(examples), **options)


def show_examples(lines: Sequence[str]) -> str | None:
    """The end of a command's help: command lines as examples."""
    head = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join([head, *(f"$ {line}" for line in lines)]) if lines else None


app = Application(
    name="modelwheel",
    cls=Group,
    help="Turn trained models into wheels of machine code.",
    epilog=_exit_codes(),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_ParserError: Any = typer.BadParameter.__mro__[2]
"""What the parser raises: of click, or of the copy that Typer has of it."""


class _InterruptedBuildError(BaseException):
    """Ctrl-C or SIGTERM. Not a KeyboardInterrupt, because Typer would end without a message."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number


def main() -> None:
    """Runs the command `modelwheel`."""
    run_application(app, "modelwheel", "the output of `modelwheel --verbose ...`")


def run_application(application: typer.Typer, name: str, evidence: str) -> None:
    """Runs a command line; errors that a user can fix end in a sentence and an exit code.

    Args:
        application: Its commands and options.
        name: What users type.
        evidence: What belongs into the report of an unexpected error.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    tolerate_encodings()
    try:
        ended = application(prog_name=name, standalone_mode=False)
    except _ParserError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its text is the help
            error.show()
            sys.exit(error.exit_code)
        _end(_usage_error(error))
    except ModelwheelError as error:
        _end(error)
    except _InterruptedBuildError as interruption:
        say("interrupted; finished steps are kept, run the command again to continue", err=True)
        sys.exit(interruption.exit_code)
    except OSError as error:
        where = one_line(error.filename or "input or output")
        _end(EnvironmentProblemError(f"{where}: {error.strerror or error}"))
    except Exception as error:  # noqa: BLE001 - the last place that can print it safely
        if _log.isEnabledFor(logging.DEBUG):
            say(traceback.format_exc(), err=True)
            sys.exit(ModelwheelError.exit_code)
        sentence = (
            f"internal error: {type(error).__name__}: {error}. This is a bug; please report it "
        )
        _end(ModelwheelError(f"{sentence}with {evidence} at {project.url('Issues')}"))
    finally:
        close_stores()
    # A command says by an exception how it ends, which the parser has turned into a number.
    sys.exit(ended if isinstance(ended, int) else 0)


def _usage_error(error: Any) -> UsageError:
    """A refusal by the parser of command lines, as one of our sentences."""
    sentence = " ".join(error.format_message().split()).rstrip(".")
    for theirs, ours in _PARSER_WORDS:
        sentence = re.sub(theirs, ours, sentence)
    context = getattr(error, "ctx", None)
    if context is not None and not sentence.endswith("?"):
        sentence += f"; see `{context.command_path} --help`"
    return UsageError(f"{sentence[:1].lower()}{sentence[1:]}")


_PARSER_WORDS = (
    ("Value error, ", ""),
    ("Input should be", "must be"),
    (", unable to parse .*", ""),
    (r" \(Possible options: (.*)\)$", r"; did you mean \1?"),
    (r"\. Did you mean", "; did you mean"),
)
"""What reads badly in the parser's sentences, and what to write instead."""


def _end(error: ModelwheelError) -> NoReturn:
    """Prints an error, with `--json` also as JSON unless the command has printed its own, and ends the process."""
    if lacks_json():
        from .display.problems import problem_rows

        print_json({"problems": problem_rows(error)})
    from .display.annotations import report_error

    report_error(error)
    sys.exit(error.exit_code)


def _interrupt(number: int, _: object) -> None:
    for again in (signal.SIGINT, signal.SIGTERM):  # a second signal must not stop the clean-up
        signal.signal(again, signal.SIG_IGN)
    raise _InterruptedBuildError(number)


def _print_version(value: bool) -> None:
    if value:
        say(f"modelwheel {__version__}")
        raise typer.Exit


_log = logging.getLogger("modelwheel")


@app.callback()
def _options(
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Log every command that is run."),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="Print results, warnings and errors alone: no progress.",
        ),
    ] = False,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool,
        typer.Option(
            "--version",
            "-V",
            callback=_print_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    # Other libraries' messages, such as each lock that filelock takes, are noise here.
    log_to_stderr()
    if verbose and quiet:
        raise UsageError(
            "--verbose cannot be combined with --quiet: one asks for more, the other for less",
            code="MW201",
        )
    be_quiet(quiet)
    _log.setLevel(logging.DEBUG if verbose else logging.WARNING)
