"""Whatever names and messages hold, no command prints an escape sequence or a command to a log's collector."""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import zipfile
from pathlib import Path

import pytest
from rich.markdown import Markdown
from rich.table import Table

from modelwheel.cli import output
from modelwheel.cli.display import tables
from modelwheel.cli.display.console import SafeConsole, make_console, plain
from modelwheel.cli.display.progress import BuildDisplay
from modelwheel.engine.check_models import CheckedModel
from modelwheel.errors import CompileError, UnsupportedModelError
from modelwheel.model.inspection import Inspection, OpUse, SignatureInfo, SignatureUse, TensorInfo
from modelwheel.spec.reading.problems import Position, Problem
from tests.support.commands import Modelwheel, run
from tests.support.hostile_text import ENCODABLE, EVERYTHING, FRAGMENTS, require_harmless
from tests.support.index_wheels import add_measurements, make_manifest, make_wheel

PACKAGE = Path(output.__file__).parents[1]

MEMBER = "\u202egpj\u2060##[add-mask]x"
"""For the name of a file in an archive: readers refuse control characters there."""

WRITERS = {
    "api/progress.py",  # names of steps; see `tests/unit/api/test_progress.py`
    "bench/samples.py",  # in the environment of a wheel, to `modelwheel bench`
    "cli/output.py",
    "cli/display/console.py",
    "workers/server/streams.py",  # to its client
    "levels.py",  # for CMake
    "thresholds.py",  # for CMake
    "release/cross/interpreter.py",  # a script in another Python
}
"""The modules that write to a stream themselves."""


def writes(module: Path) -> bool:
    """Whether a module prints, or makes a console of its own."""
    named = {"print", "typer.echo", "typer.secho", "click.echo", "Console", "SafeConsole", "sys.stdout.write",
             "sys.stderr.write"}  # fmt: skip
    tree = ast.parse(module.read_text(encoding="utf-8"))
    calls = (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(call in named for call in calls) or (
        "print(json.dumps({" in module.read_text(encoding="utf-8")
    )


def test_only_the_safe_writers_print() -> None:
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if writes(path)}
    assert found == WRITERS


@pytest.mark.parametrize("what", FRAGMENTS)
def test_every_way_to_print(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = FRAGMENTS[what]
    output.say(f"{text} in a line\n{text}")
    output.say(text, err=True)
    output.say_error(f"{text}: wrong")
    console = make_console(stderr=False)
    console.print(f"{plain(text)}")
    console.print(f"[bold]bold[/] {text}", markup=False)
    table = Table("a", text)
    table.add_row(plain(text), text.replace("[", ""))
    console.print(table)
    display = BuildDisplay(make_console(stderr=True))
    with display:
        display.planned([f"{text}/fetch"])
        display.started(f"{text}/fetch")
        display.failed(f"{text}/fetch", CompileError(f"op {text} of {text}"))
    shown = capsys.readouterr()
    require_harmless(shown.out)
    require_harmless(shown.err)


def test_terminals_get_our_colours_and_no_others() -> None:
    terminal = io.StringIO()
    console = SafeConsole(file=terminal, force_terminal=True, color_system="standard")
    console.print("[bold]bold[/]", plain("a\x1b[2J"))
    # Entities become characters after the text was made safe.
    console.print(Markdown("pay &#x202e; and&#x2028;::error::x &#x200b;"))
    shown = terminal.getvalue()
    assert set(re.findall("\x1b.*?[A-Za-z]", shown)) == {"\x1b[1m", "\x1b[0m"}
    assert not set("\u202e\u2028\u200b") & set(shown)


def test_markup_of_a_name_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    make_console(stderr=False).print(plain(FRAGMENTS["markup"]))
    assert capsys.readouterr().out.startswith("[red]x[/red] [link=")


def test_json_is_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"name": EVERYTHING, "del": "\x7f"})
    output.say_json('{"a": "\u202e\x7f##[error]\U000e0041"}\n')
    shown = capsys.readouterr().out
    require_harmless(shown)
    first, _, second = shown.partition("}\n")
    assert json.loads(f"{first}}}") == {"name": EVERYTHING, "del": "\x7f"}
    assert json.loads(second) == {"a": "\u202e\x7f##[error]\U000e0041"}


_LOGS = """
import logging, sys, warnings
from modelwheel.cli import app, main
from tests.support.hostile_text import EVERYTHING

@app.command()
def probe(how: str) -> None:
    logging.getLogger("modelwheel.x").warning("says %s", EVERYTHING)
    warnings.warn(EVERYTHING)
    if how == "system":
        raise OSError(2, EVERYTHING, EVERYTHING)
    raise ValueError(EVERYTHING)

sys.argv = ["modelwheel", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    "arguments", [("probe", "fault"), ("--verbose", "probe", "fault"), ("probe", "system")]
)
def test_logs_warnings_and_faults(arguments: tuple[str, ...]) -> None:
    code = 11 if "system" in arguments else 1
    done = run(sys.executable, "-c", _LOGS, *arguments, code=code)
    assert "says " in done.err
    assert ("Traceback" in done.err) == ("--verbose" in arguments)
    require_harmless(done.out)
    require_harmless(done.err)


def test_narrow_encodings_do_not_stop_a_command() -> None:
    program = "from modelwheel.cli import output; output.tolerate_encodings(); output.say('Ż')"
    done = run(sys.executable, "-c", program, PYTHONIOENCODING="cp1252")
    assert done.out == "\\u017b\n"


def test_names_in_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    tensor = TensorInfo(name=ENCODABLE, dtype="float32", shape=(None, 2))
    used = {"serving": SignatureUse(count=1, layers=(ENCODABLE,) * 4)}
    ops = [
        OpUse(op=f"{ENCODABLE}{kind}", dtypes=f"T={ENCODABLE}", support="unsupported", count=1,
              functions=(ENCODABLE,), layers=(ENCODABLE,), signatures=signatures)
        for kind, signatures in (("used", used), ("unused", {}))
    ]  # fmt: skip
    inspection = Inspection(
        written_by=ENCODABLE, tags=("serve",), ops=tuple(ops), assets=(ENCODABLE,),
        signatures=(SignatureInfo(key="serving", inputs=(tensor,), outputs=(tensor,)),),
    )  # fmt: skip
    error = UnsupportedModelError(f"layer {EVERYTHING}")
    tables.print_checked(
        [
            CheckedModel(
                ENCODABLE, ENCODABLE, "serving", inspection=inspection, findings=(), error=error
            )
        ]
    )
    require_harmless(capsys.readouterr().out)


@pytest.mark.parametrize("what", FRAGMENTS)
def test_a_problem_is_one_line(what: str) -> None:
    text = FRAGMENTS[what]
    shown = str(Problem(Path(f"a{text}.yaml"), Position(1, 2), ("x", text), text, text))
    assert len(shown.splitlines()) == 1
    require_harmless(shown)


@pytest.fixture
def modelwheel(tmp_path: Path) -> Modelwheel:
    return Modelwheel(tmp_path / "cache")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A directory whose name begins a line with a command, in which a spec and a wheel have such names."""
    directory = tmp_path / "d\n::error::x\x1b[2J"
    directory.mkdir()
    return directory


SPEC = 'model: {name: jet, version: "1.0.0"%s}\nsource: {directory: model}\n'


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such file names")
@pytest.mark.parametrize("command", ["check", "compile"])
def test_names_of_specs(modelwheel: Modelwheel, hostile: Path, command: str) -> None:
    (hostile / "jet\n::error::y.yaml").write_text(SPEC % "")
    for given in (hostile, hostile / "jet\n::error::y.yaml", hostile / "absent\n::error::y.yaml"):
        done = modelwheel(command, given, code=3)
        assert "error" in done.err
        require_harmless(done.out + done.err)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_values_in_specs(modelwheel: Modelwheel, tmp_path: Path, options: tuple[str, ...]) -> None:
    text = json.dumps(ENCODABLE.replace("\U000e0041", ""))  # YAML has no surrogate pairs
    (tmp_path / "jet.yaml").write_text(SPEC % f", author: {text}, {text}: 1, serving_key: {text}")
    done = modelwheel("check", "--spec-only", *options, tmp_path / "jet.yaml", code=3)
    assert "cannot be shown safely" in done.out + done.err
    require_harmless(done.out + done.err)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such file names")
@pytest.mark.parametrize("command", [("inspect",), ("publish", "--dry-run"), ("wheel",)])
def test_names_of_wheels(
    modelwheel: Modelwheel, hostile: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    kind = "tar.gz" if command == ("wheel",) else "whl"
    for name in (f"model_a-1.0.0\n::error::y-py3-none-any.{kind}", f"m\x1b[2J.{kind}"):
        (hostile / name).write_bytes(b"no wheel")
    extra = ("--repository-url", "http://127.0.0.1:9/") if "publish" in command else ()
    out = ("--out", tmp_path / "out") if command[0] in ("index", "wheel") else ()
    done = modelwheel(*command, *extra, *out, hostile, code=2)
    assert "not the name of a wheel" in done.err
    require_harmless(done.out + done.err)


@pytest.mark.parametrize("options", [(), ("--json",), ("--sbom",)])
def test_what_a_wheel_says_of_itself(
    modelwheel: Modelwheel, tmp_path: Path, options: tuple[str, ...]
) -> None:
    wheel = make_wheel(tmp_path, "a", ENCODABLE)
    bill = {"components": [{"name": ENCODABLE, "description": ENCODABLE, "version": "1"}]}
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(
            "model_a-1.0.0.dist-info/sboms/model_a.cdx.json",
            json.dumps(bill, ensure_ascii=False, indent=1),
        )
        archive.writestr(f"model_a/{MEMBER}.txt", "")
    done = modelwheel("inspect", *options, wheel)
    require_harmless(done.out + done.err)
    if "--sbom" in options:
        assert done.json == bill


def test_measurements_of_a_hostile_wheel(tmp_path: Path) -> None:
    from modelwheel.util.markdown import table

    wheel = make_wheel(tmp_path, "a", manifest=make_manifest("a", ENCODABLE))
    add_measurements(wheel, ENCODABLE)
    shown = table(["a"], [[f"x{ENCODABLE}\ny"], [EVERYTHING]])
    require_harmless(shown)
