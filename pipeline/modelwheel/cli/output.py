"""Writes to standard output and standard error: only here and in `modelwheel.cli.display.console`.

Text of models, files and other programs goes through `modelwheel.util.text`, so that no command can print
an escape sequence or a command to the service that collects the log.
"""

from __future__ import annotations

import json
import logging
import os
import sys

import typer

from ..errors import ModelwheelError
from ..util.text import json_text, safe_lines


def say(text: object, *, err: bool = False) -> None:
    """Prints text of one or several lines."""
    typer.echo(safe_lines(text), err=err)


_quiet = False


def be_quiet(quiet: bool) -> None:
    """Sets for the whole process whether results, warnings and errors alone are printed."""
    global _quiet  # noqa: PLW0603 - an option of all commands, like the level of the log
    _quiet = quiet


def is_quiet() -> bool:
    """Whether the command was called with `--quiet`."""
    return _quiet


def tell(text: object) -> None:
    """Prints what a person may want to know beside the result, on standard error; nothing with `--quiet`."""
    if not is_quiet():
        say(text, err=True)


def say_error(error: object) -> None:
    """Prints an error with its code; the prefix is coloured on terminals that allow it (https://no-color.org)."""
    sentence = error.shown() if isinstance(error, ModelwheelError) else error
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    prefix = "error" if plain else typer.style("error", fg="red", bold=True)
    typer.echo(f"{prefix}: {safe_lines(sentence)}", err=True)


def say_command(command: str) -> None:
    """Prints a command to the service that collects the log: only its own text may be in it, the rest escaped."""
    typer.echo(command, err=True)


_json = {"wanted": False, "printed": False}


def want_json(wanted: bool) -> bool:
    """Notes for the whole process whether the command was called with `--json`; returns the same."""
    _json.update(wanted=wanted, printed=False)
    return wanted


def lacks_json() -> bool:
    """Whether `--json` was given and nothing was printed as JSON yet."""
    return _json["wanted"] and not _json["printed"]


def print_json(value: object) -> None:
    """Prints a value of any type that `as_json` knows."""
    from ..util.records import as_json

    say_json(json.dumps(as_json(value), indent=2) + "\n")


def say_json(text: str) -> None:
    """Prints a JSON document; characters that must not be printed become its escapes."""
    _json["printed"] = True
    typer.echo(json_text(text), nl=False)


class _Formatter(logging.Formatter):
    """Names the module of a record that a developer asked for, or that is of another library."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if record.name.partition(".")[0] == "modelwheel" and record.levelno >= logging.WARNING:
            text = text.replace(f"{record.name}: ", "warning: ", 1)
        return safe_lines(text)


def log_to_stderr() -> None:
    """Sends log records and Python's warnings to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.captureWarnings(capture=True)


def tolerate_encodings() -> None:
    """Shows characters that the terminal's encoding lacks as escapes, where Python would fail."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
