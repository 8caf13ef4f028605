"""`make hostile-demo`: every attack, what stopped it, and what it left behind.

Each hostile model is run twice: as its author would have it run, through `modelwheel check`, and with the
judgement switched off, through the jobs of a build in the sandbox. Attacks by other files go through the
command that reads them. All files land under `.demo/hostile/`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from modelwheel.errors import ModelwheelError
from modelwheel.sandbox.choose import Sandbox, choose_sandbox
from modelwheel.sandbox.policy import Limits, Policy
from modelwheel.util.processes.process import run as run_program
from modelwheel.util.text import one_line
from modelwheel.workers.jobs import FreezeRequest, ReferenceRequest
from modelwheel.workers.pool import WorkerPool
from tests.demo.__main__ import build_wheel, install
from tests.demo.data import WORK, pin_spec, run, say
from tests.demo.hostile_callers import CALLERS
from tests.demo.hostile_containers import CONTAINER_ATTACKS
from tests.demo.hostile_damage import DAMAGE_ATTACKS, damaged_models
from tests.demo.hostile_files import FILE_ATTACKS
from tests.models.hostile import ATTACKS, SECRET, TOKEN, VARIABLE, Attack, Victim
from tests.models.hostile_reading import SMALL
from tests.support.allocations import compile_library, starve

HOSTILE = WORK / "hostile"
LIMITS = Limits(
    memory_bytes=4 << 30, cpu_seconds=10, wall_seconds=10, processes=1, file_bytes=256 << 20
)
"""Of each job with the judgement off. A build allows more, since models of good will need it."""

_SHOWN = 100
"""Characters of a sentence in the table."""


@dataclass
class Outcome:
    """What became of an attack."""

    attack: str
    judged: str
    """What the command that reads the file said."""
    unjudged: str = ""
    """What happened with the judgement switched off."""
    left: list[str] = field(default_factory=list)
    """What it reached; every entry is a defect."""


class Watch:
    """Notices what an attack reaches: files, secrets, connections, processes."""

    def __init__(self, victim: Victim, connections: list[str]) -> None:
        self._victim, self._connections = victim, connections
        self._before = self._files()

    def reached(self, outputs: Sequence[Path] = ()) -> list[str]:
        """What was reached since the last call."""
        now = self._files()
        found = [f"wrote {path}" for path in sorted(now.keys() - self._before.keys())]
        found += [f"changed {path}" for path in self._before if now.get(path) != self._before[path]]
        found += [f"connected from {peer}" for peer in self._connections]
        found += [f"read {what}" for path in outputs for what in _secrets(path)]
        self._before = now
        self._connections.clear()
        return found

    def _files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self._victim.directory)): path.read_bytes()
            for path in self._victim.directory.rglob("*")
            if path.is_file()
        }


def _secrets(directory: Path) -> Iterator[str]:
    """The secrets that a job's outputs hold, as text or as weights."""
    for path in directory.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        for name, text in (("a secret file", SECRET), ("an environment variable", TOKEN)):
            # Models turn what they read into weights: a number for each byte.
            numbers = struct.pack(f"<{len(text)}f", *text.encode())
            if text.encode() in content or numbers in content:
                yield name


@contextmanager
def listen(connections: list[str]) -> Iterator[int]:
    """A server of this machine that notes who connects; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    _, peer = server.accept()
                except OSError:
                    return
                connections.append(f"port {peer[1]}")

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def run_modelwheel(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a command, which must not fail in a way that is no answer."""
    done = subprocess.run(
        [sys.executable, "-m", "modelwheel", *arguments],
        env={**os.environ, "MODELWHEEL_CACHE_DIR": str(HOSTILE / "store")},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if "Traceback" in done.stderr or "internal error" in done.stderr:
        sys.exit(done.stderr)
    return done


def first_error(*arguments: str | Path) -> str:
    """What a command refuses, in a sentence; "" if it ended well."""
    done = run_modelwheel(*arguments)
    if done.returncode == 0:
        return ""
    if "--json" in arguments and (rows := json.loads(done.stdout).get("models")):
        return _verdict(rows[0])
    lines = done.stderr.splitlines()
    said = next((line for line in lines if line.startswith("error: ")), done.stderr)
    return said.removeprefix("error: ")


def judge(models: Path) -> tuple[dict[str, str], float]:
    """What `modelwheel check` says of every model, and the seconds that it takes."""
    specs = HOSTILE / "specs"
    specs.mkdir(parents=True)
    for attack in ATTACKS:
        name = attack.name.replace("_", "-")
        (specs / f"{name}.yaml").write_text(
            f'model:\n  name: {name}\n  version: "1.0.0"\n'
            f"  saved_model: {os.path.relpath(models / attack.name, specs)}\n"
            "compilation: {batch_sizes: [1]}\n",
            encoding="utf-8",
        )
    start = time.monotonic()
    return _check(specs), time.monotonic() - start


def _check(specs: Path) -> dict[str, str]:
    """What `modelwheel check` says of each model of a directory, by its name and version."""
    checked = json.loads(run_modelwheel("check", specs, "--json").stdout)["models"]
    return {row["model"]: _verdict(row) for row in checked}


def _verdict(row: dict[str, Any]) -> str:
    """What refuses a model, and its first error; empty if it was let through."""
    if row["error"]:
        return f"judgement: {str(row['error']).splitlines()[0]}".replace(f"{HOSTILE}/", "")
    errors = [finding for finding in row["findings"] if finding["severity"] == "error"]
    if not errors:
        return ""
    kind = "limit" if errors[0]["kind"] == "limit" else "judgement"
    return f"{kind}: {errors[0]['message']}"


def run_unjudged(attack: Attack, models: Path, pool: WorkerPool) -> tuple[str, list[Path]]:
    """Freezes and evaluates a model that the judgement would refuse; what happened, and the outputs."""
    requests: list[FreezeRequest | ReferenceRequest] = [
        FreezeRequest(signature="serving_default", batch=1),
        ReferenceRequest(signature="serving_default", batch_sizes=(1,)),
    ]
    said, outputs = [], []
    for request in requests:
        out = HOSTILE / "outputs" / attack.name / type(request).__name__
        out.mkdir(parents=True)
        outputs.append(out)
        try:
            pool.submit(request.job(models / attack.name, out)).result()
        except ModelwheelError as error:
            said.append(str(error).splitlines()[0].replace(f"{HOSTILE}/", ""))
    return "; ".join(dict.fromkeys(said)) or "ran in the sandbox, and reached nothing", outputs


def attack_models(sandbox: Sandbox) -> list[Outcome]:
    """Runs every hostile model, judged and unjudged."""
    connections: list[str] = []
    victim = Victim(HOSTILE / "victim")
    models = HOSTILE / "models"
    with listen(connections) as port:
        say(f"writing {len(ATTACKS)} hostile models")
        run(
            sys.executable,
            "-m",
            "tests.models.hostile",
            models,
            victim.directory,
            str(port),
            quiet=True,
        )
        watch = Watch(Victim(victim.directory, port), connections)
        say("checking them as their authors would have it")
        verdicts, seconds = judge(models)
        outcomes = {
            attack.name: Outcome(
                f"a model {attack.attempts}", verdicts[f"{attack.name.replace('_', '-')}-1.0.0"]
            )
            for attack in ATTACKS
        }
        say(f"all judged in {seconds:.0f} s; running them with the judgement switched off")
        next(iter(outcomes.values())).left += watch.reached()
        with WorkerPool(HOSTILE / "workers", 1, sandbox=sandbox) as pool:
            for attack in ATTACKS:
                if attack.runs:
                    outcome = outcomes[attack.name]
                    outcome.unjudged, outputs = run_unjudged(attack, models, pool)
                    outcome.left += watch.reached(outputs)
    return list(outcomes.values())


def attack_by_files() -> list[Outcome]:
    """Gives every hostile file to the command that reads it."""
    attacks = [*FILE_ATTACKS, *CONTAINER_ATTACKS]
    say(f"giving {len(attacks)} hostile files to what reads them")
    outcomes = []
    for attack in attacks:
        directory = HOSTILE / "files" / attack.name
        victim = Victim(directory / "victim")
        victim.prepare()
        watch = Watch(victim, [])
        said = attack.run(directory, victim, first_error)
        said = said.replace(f"{directory}/", "")
        outcomes.append(Outcome(attack.attempts, said, left=watch.reached()))
    return outcomes


def attack_by_small_files() -> list[Outcome]:
    """Reads every small file that would take hours."""
    say(f"reading {len(SMALL)} files that would take hours or all memory")
    directory, names = HOSTILE / "small", [small.name.replace("_", "-") for small in SMALL]
    for name, small in zip(names, SMALL, strict=True):
        model = directory / name
        model.mkdir(parents=True)
        fields = {"directory": name, "path": small.file, **small.write(model)}
        source = ", ".join(f"{key}: {value}" for key, value in fields.items())
        (directory / f"{name}.yaml").write_text(
            f'model: {{name: {name}, version: "1.0.0"}}\nsource: {{{source}}}\n', encoding="utf-8"
        )
    start = time.monotonic()
    verdicts = _check(directory)
    say(f"all read in {time.monotonic() - start:.0f} s")
    return [
        Outcome(f"a file is {small.attempts}", verdicts[f"{name}-1.0.0"])
        for name, small in zip(names, SMALL, strict=True)
    ]


def attack_by_damage() -> list[Outcome]:
    """Checks damaged model files, and gives others to the commands that read them."""
    say("checking damaged files of every format")
    directory = HOSTILE / "damaged"
    outcomes = [
        Outcome(attempts, said)
        for attempts, said in damaged_models(directory, run_modelwheel, _verdict)
    ]
    for number, (attempts, perform) in enumerate(DAMAGE_ATTACKS.items()):
        victim = Victim(directory / str(number) / "victim")
        victim.prepare()
        watch = Watch(victim, [])
        said = perform(directory / str(number), victim, first_error)
        outcomes.append(Outcome(attempts, said, left=watch.reached()))
    return outcomes


def attack_by_callers() -> list[Outcome]:
    """Has programs misuse the wheel of the other demonstration."""
    python = install(build_wheel(pin_spec("digits")))
    say(f"calling it from {len(CALLERS)} hostile programs")
    outcomes = [Outcome(attempts, _call(python, source)) for attempts, source in CALLERS.items()]
    counts = re.findall(
        r": (\d+) allocations", starve(python, compile_library(HOSTILE), "model_digits")
    )
    said = f"a MemoryError each, {sum(map(int, counts))} times"
    return [*outcomes, Outcome("a program has no memory for one allocation after the other", said)]


def _call(python: Path, source: str) -> str:
    """The last line that a program prints; "" if it ends by a signal or does not end."""
    try:
        done = subprocess.run(
            [python, "-c", textwrap.dedent(source)],
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )
    except subprocess.TimeoutExpired:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines and done.returncode == 1 else ""


def survivors(before: set[int]) -> list[str]:
    """Processes that were started here and still run."""
    children = psutil.Process().children(recursive=True)
    return [f"process {child.pid} runs" for child in children if child.pid not in before]


def print_outcomes(outcomes: Sequence[Outcome], sandbox: Sandbox) -> None:
    """The table."""
    table = Table(
        *("attack", "stopped by", "with the judgement switched off", "left behind"),
        title=f"attacks on a build; sandbox: {sandbox.name}",
        show_lines=True,
    )
    for outcome in outcomes:
        texts = (outcome.attack, outcome.judged or "nothing", outcome.unjudged)
        table.add_row(*map(_shorten, texts), "; ".join(outcome.left) or "nothing")
    Console(width=160, markup=False).print(table)


def _shorten(text: str) -> str:
    plain = one_line(text)
    return plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}..."


def main() -> None:
    """Runs all attacks; fails if one was let through or left anything behind."""
    shutil.rmtree(HOSTILE, ignore_errors=True)
    (HOSTILE / "workers").mkdir(parents=True)
    os.environ[VARIABLE] = TOKEN
    run_program(
        [sys.executable, "-c", ""]
    )  # with it starts the guard, which ends with this process
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    sandbox = choose_sandbox(Policy.REQUIRED, LIMITS)
    outcomes = [*attack_models(sandbox), *attack_by_files(), *attack_by_small_files()]
    outcomes += [*attack_by_damage(), *attack_by_callers()]
    outcomes[-1].left += survivors(before)
    print_outcomes(outcomes, sandbox)
    failed = [outcome.attack for outcome in outcomes if outcome.left or not outcome.judged]
    if failed:
        sys.exit(f"{len(failed)} of {len(outcomes)} attacks were not stopped: {', '.join(failed)}")
    print(json.dumps({"attacks": len(outcomes), "left behind": 0}))  # noqa: T201


if __name__ == "__main__":
    main()
