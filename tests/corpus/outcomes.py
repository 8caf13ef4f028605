"""What became of every model, `outcomes.jsonl`: kept with the table, so that a page needs no machine that has built all models."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from modelwheel.util.records import JsonRecord
from tests.corpus.table import Model
from tests.corpus.visit import ROWS, Result

FILE = Path(__file__).with_name("outcomes.jsonl")


class Outcome(JsonRecord):
    """The result for one model, without its single measurements."""

    JSON_INDENT = None

    model: str
    row: str
    """A hash of the row of the table; another row makes the outcome old."""
    refusal: str = ""
    """Why the model was refused."""
    seconds: float
    """Wall-clock time of the build."""
    processor_seconds: float
    megabytes: float
    """The most memory that a step needed."""
    ratios: Mapping[int, tuple[float, str]] = {}
    """By the rows of a call: how many times as long as the wheel the best other runtime takes, and which it is."""
    cpu: str = ""
    date: str = ""

    @property
    def proven(self) -> bool:
        """Whether its wheel computes what the framework does."""
        return not self.refusal


def outcome_of(model: Model, result: Result) -> Outcome:
    """The outcome of a result that has been measured here."""
    machine = result.benchmark.machine if result.benchmark else None
    return Outcome(
        model=model.name,
        row=hash_of(model),
        refusal=result.refusal,
        seconds=result.seconds,
        processor_seconds=result.processor_seconds,
        megabytes=result.megabytes,
        ratios={
            rows: (round(found[0], 3), found[1])
            for rows in ROWS
            if (found := result.ratio(rows)) is not None
        },
        cpu=machine.cpu if machine else "",
        date=str(machine.date) if machine else "",
    )


def read_outcomes(table: Sequence[Model], file: Path = FILE) -> dict[str, Outcome]:
    """By model, those of rows as they are in the table."""
    lines = file.read_bytes().splitlines() if file.exists() else []
    found = {one.model: one for one in map(Outcome.model_validate_json, lines)}
    hashes = {model.name: hash_of(model) for model in table}
    return {
        name: found[name] for name in hashes if name in found and found[name].row == hashes[name]
    }


def write_outcomes(
    table: Sequence[Model], outcomes: Mapping[str, Outcome], file: Path = FILE
) -> None:
    """Writes one line per model, in the order of the table."""
    lines = [outcomes[model.name].to_json() for model in table if model.name in outcomes]
    file.write_bytes(b"".join(lines))


def hash_of(model: Model) -> str:
    """Of what a row of the table says about the file and how it is built."""
    return hashlib.sha256(model.model_dump_json().encode()).hexdigest()[:16]
