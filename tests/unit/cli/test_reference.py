"""`explain`, `schema`, and what the parser of command lines refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelwheel import __version__, project
from modelwheel.cli.display.tables import print_totals
from modelwheel.codes import all_codes
from modelwheel.errors import UsageError
from modelwheel.spec.schema import schema_text
from tests.support.commands import Modelwheel


@pytest.fixture
def modelwheel(tmp_path: Path) -> Modelwheel:
    return Modelwheel(tmp_path / "cache")


def test_a_code_is_explained(modelwheel: Modelwheel) -> None:
    code = all_codes()["MW302"]
    said = modelwheel("explain", "mw302").out
    assert said == f"MW302: {code.title} (exit code 4)\n\n{code.text}\n"
    assert modelwheel("explain", "MW302", "--json").json == {
        "code": "MW302",
        "exit_code": 4,
        "title": code.title,
        "text": code.text,
    }


def test_all_codes_are_listed(modelwheel: Modelwheel) -> None:
    lines = modelwheel("explain").out.splitlines()
    assert [line.split()[0] for line in lines] == list(all_codes())
    assert [row["code"] for row in modelwheel("explain", "--json").json] == list(all_codes())


def test_the_schema_is_printed_or_written(modelwheel: Modelwheel, tmp_path: Path) -> None:
    assert modelwheel("schema").out == modelwheel("schema", "--json").out == schema_text()
    path = tmp_path / "schema.json"
    assert modelwheel("schema", "--out", path).out == f"wrote {path}\n"
    assert path.read_text() == schema_text()
    assert modelwheel("schema", "--out", path, "--json").json == {"schema": str(path)}
    address = json.loads(schema_text())["$id"]
    assert address == f"{project.url()}/raw/v{__version__}/model_specs/schema.json"


def test_a_schema_that_cannot_be_written(modelwheel: Modelwheel, tmp_path: Path) -> None:
    said = modelwheel("schema", "--out", tmp_path / "absent" / "schema.json", code=11).err
    assert "[MW726]" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("frobnicate", "no such command 'frobnicate'; see `modelwheel --help`"),
        ("checks", "no such command 'checks'; did you mean 'check'?"),
        ("check --opps", "no such option: --opps; did you mean --ops?"),
        ("build", "missing argument 'SPEC|MODEL'; see `modelwheel build --help`"),
        ("doctor --for nobody", "'nobody' is not one of 'author', 'release'; see `modelwheel "),
        ("cache --remove-unused x", "must be a valid integer; see `modelwheel cache --help`"),
        ("--verbose --quiet config", "--verbose cannot be combined with --quiet"),
        ("check --ops --json a.yaml", "--ops cannot be combined with --json"),
    ],
)
def test_a_wrong_line_is_one_sentence_with_a_code(
    modelwheel: Modelwheel, line: str, said: str
) -> None:
    done = modelwheel(*line.split(), code=UsageError.exit_code)
    assert done.err.startswith("error: ")
    assert said in done.err
    assert done.err.endswith(("[MW200]\n", "[MW201]\n"))
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("line", [[], ["export"]])
def test_help_where_nothing_is_asked_for(modelwheel: Modelwheel, line: list[str]) -> None:
    done = modelwheel(*line, code=2)
    assert "Usage: modelwheel" in done.out + done.err
    assert "error: " not in done.err


def test_the_last_line_counts(capsys: pytest.CaptureFixture[str]) -> None:
    print_totals("spec", {"a": True, "b": False, "c": False}, ("built", "failed"))
    print_totals("wheel", {"a": True})
    assert capsys.readouterr().out == "3 specs: 1 built, 2 failed (b, c)\n"
