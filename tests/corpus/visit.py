"""Builds published models, and times them beside other runtimes; what became of each is kept in a file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from modelwheel.bench.results import Benchmark
from modelwheel.levels import cpu_level
from modelwheel.util.records import JsonRecord
from tests.corpus.fetch import fetch
from tests.corpus.samples import make_samples
from tests.corpus.table import Model
from tests.support.commands import COMMAND

ROWS = (1, 3, 8)
"""What calls are timed with; the second one is no batch size that is compiled by default."""


class Result(JsonRecord):
    """What became of one model."""

    JSON_INDENT = None

    model: str
    row: str
    """The row of the table; another one makes the result old."""
    refusal: str = ""
    """Why it was refused."""
    seconds: float = 0.0
    """Wall-clock time of the build."""
    processor_seconds: float = 0.0
    megabytes: float = 0.0
    """The most memory that a step needed, with what each of them finds in memory already."""
    megabytes_of_model: float = 0.0
    megabytes_of_wheel: float = 0.0
    benchmark: Benchmark | None = None
    untimed: str = ""
    """Why the wheel could not be timed."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to be done."""
        return bool(self.refusal or self.untimed or self.benchmark)

    @property
    def proven(self) -> bool:
        """Whether its wheel computes what the framework does."""
        return not self.refusal

    def ratio(self, rows: int) -> tuple[float, str] | None:
        """How many times as long as the wheel the best other runtime takes, and which it is."""
        cases = self.benchmark.models[-1].cases if self.benchmark else ()
        best = next((case.best for case in cases if case.rows == rows), None)
        return (best.ratio.median, best.kind) if best and best.ratio else None


@dataclass(frozen=True)
class Corpus:
    """A directory with downloads, specs, wheels and results."""

    directory: Path

    def result(self, model: Model) -> Result | None:
        """The result for this row of the table, if there is one."""
        file = self._file(model)
        if not file.exists():
            return None
        found = Result.load(file)
        return found if found.row == model.model_dump_json() else None

    def visit(self, model: Model, *, again: bool = False, timed: bool = True) -> Result:
        """Builds a model, unless there is a result; times it if that is asked for; writes the result."""
        spec = self.write_spec(model)
        result = None if again else self.result(model)
        if result is None:
            result = self._build(model, spec)
        if timed and not result.is_complete:
            result = self._time(model, spec, result)
        self._file(model).parent.mkdir(parents=True, exist_ok=True)
        result.save(self._file(model))
        return result

    def write_spec(
        self, model: Model, levels: Sequence[str] = (), batch_sizes: Sequence[int] = ()
    ) -> Path:
        """Writes the spec of a model as a newcomer would, with nothing in `verify` but real inputs.

        Args:
            model: The model.
            levels: CPU levels; by default those of a spec that names none.
            batch_sizes: Batch sizes of models that have a batch; likewise.

        Raises:
            subprocess.CalledProcessError: Its package cannot be downloaded.
        """
        path = fetch(model, self.directory)
        source: dict[str, object] = {"directory": str(path if path.is_dir() else path.parent)}
        if path.is_file():
            source["path"] = path.name
        given = {key: value for key, value in model.spec.items() if key != "source"}
        options = model.spec.get("source", {})
        assert isinstance(options, Mapping)
        spec: dict[str, object] = {
            "model": {"name": model.name, "version": "1.0.0", "description": model.about},
            "source": source | dict(options),
            "package": {"publish": False},
            **given,
        }
        if levels:
            spec["targets"] = list(levels)
        if batch_sizes and model.batched:
            spec["compilation"] = {"batch_sizes": list(batch_sizes)}
        if model.samples:
            arrays: dict[str, Any] = dict(make_samples(model.samples))
            np.savez(Path(str(source["directory"])) / f"{model.name}.npz", **arrays)
            spec["verify"] = {"samples": f"{model.name}.npz"}
        file = self.directory / "specs" / f"{model.name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
        return file

    def _file(self, model: Model) -> Path:
        return self.directory / "results" / f"{model.name}.json"

    def _build(self, model: Model, spec: Path) -> Result:
        """Builds it in a store of its own, so that all work is done and counted."""
        out, store = self.directory / "wheels", self._store(model)
        shutil.rmtree(store, ignore_errors=True)
        started = time.monotonic()
        done = _run("build", "--json", "--out", str(out), str(spec), store=store)
        result = Result(
            model=model.name,
            row=model.model_dump_json(),
            seconds=round(time.monotonic() - started, 1),
            processor_seconds=done.processor_seconds,
            megabytes=round(done.megabytes + _megabytes_of_steps(store), 1),
            megabytes_of_model=round(_bytes(fetch(model, self.directory)) / 1e6, 1),
        )
        built = json.loads(done.out)[0] if done.out.startswith("[") else {}
        if done.code or not built.get("wheel"):
            messages = (error["message"].partition("\n")[0] for error in built.get("errors", ()))
            said = next(chain(messages, done.err.splitlines()), "no message")
            return result.model_copy(update={"refusal": said.removeprefix("error: ")})
        size = Path(built["wheel"]).stat().st_size
        return result.model_copy(update={"megabytes_of_wheel": round(size / 1e6, 1)})

    def _time(self, model: Model, spec: Path, result: Result) -> Result:
        numbers = ROWS if model.batched else ROWS[:1]
        rows = [text for number in numbers for text in ("--batch-size", str(number))]
        level = ("--level", cpu_level().name)
        done = _run("bench", "--json", *level, *rows, str(spec), store=self._store(model))
        if done.code:
            *_, said = ["no message", *done.err.splitlines()]
            return result.model_copy(update={"untimed": said.removeprefix("error: ")})
        benchmark = Benchmark.model_validate_json(done.out)
        return result.model_copy(update={"benchmark": benchmark})

    def _store(self, model: Model) -> Path:
        return self.directory / "stores" / model.name


@dataclass(frozen=True)
class _Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str
    processor_seconds: float
    megabytes: float
    """The most memory of the command itself."""


def _megabytes_of_steps(store: Path) -> float:
    """What the step that needed most had beyond the process that it was forked from; a build notes it with each result."""
    records = (json.loads(file.read_text()) for file in (store / "actions").glob("*/*.json"))
    peaks = (record.get("note", {}).get("peak_bytes", 0) for record in records)
    return max(peaks, default=0) / 1e6


def _run(*arguments: str, store: Path) -> _Ended:
    """Runs `modelwheel`."""
    environment = {**os.environ, "MODELWHEEL_CACHE_DIR": str(store)}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([*COMMAND, *arguments], env=environment, stdout=out, stderr=err)
        # The usage of one process and of all that it has waited for.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return _Ended(
            code=process.returncode,
            out=out.read().decode(),
            err=err.read().decode(),
            processor_seconds=round(usage.ru_utime + usage.ru_stime, 1),
            megabytes=round(usage.ru_maxrss / 1024, 1),
        )


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else path.parent.glob(f"{path.name}*")
    return sum(file.stat().st_size for file in files if file.is_file())
