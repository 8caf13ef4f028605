"""Runs the tests of an unpacked wheel with weights that are overwritten: `python judge.py JOBS.json`.

It imports nothing but NumPy before it forks: each child loads the library as it is then. Writes one line of JSON
for each mutant.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

_SECONDS = 120
_CALLS = 8
"""How often the model is called with other random rows to explain a miss."""
_RARE = 0.1
"""What fewer rows show, all rows of a comparison may lack by chance."""


def main(path: Path) -> None:
    """Judges all mutants of a file of jobs."""
    jobs = json.loads(path.read_bytes())
    sys.path.insert(0, jobs["packages"])
    before = _fork(jobs, outputs=True)
    if before is None or not (before["verify"] and before["selftest"]):
        raise SystemExit("the wheel does not pass without a change")
    for mutant in jobs["mutants"]:
        kept = {name: _write(Path(name), place, mutant) for name, place in jobs["places"].items()}
        try:
            found = _fork(jobs, outputs=False)
            missed = found is not None and (found["verify"] or found["selftest"])
            moved = _fork(jobs, outputs=True) if missed else None
        finally:
            for name, content in kept.items():
                Path(name).write_bytes(content)
        answer = {
            "kind": mutant["kind"],
            "verify": found is None or not found["verify"],
            "selftest": found is None or not found["selftest"],
            "effect": None if moved is None else _effect(before, moved),
        }
        sys.stdout.write(json.dumps(answer) + "\n")


def _write(library: Path, place: int, mutant: dict[str, Any]) -> bytes:
    """Overwrites values in a library; returns what it held."""
    content = library.read_bytes()
    changed = bytearray(content)
    start = place + mutant["offset"]
    for position, value in zip(mutant["positions"], mutant["values"], strict=True):
        at = start + 4 * position
        changed[at : at + 4] = np.float32(value).tobytes()
    library.write_bytes(changed)
    return content


def _fork(jobs: dict[str, Any], *, outputs: bool) -> dict[str, Any] | None:
    """What a new process finds; None if it crashes or does not end."""
    out, started = Path(jobs["packages"], "result.json"), time.monotonic()
    out.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        try:
            out.write_text(json.dumps(_judge(jobs, outputs=outputs)))
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the parent takes any end for a crash
            os._exit(1)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() - started > _SECONDS:
            os.kill(child, 9)
            os.waitpid(child, 0)
            break
        time.sleep(0.01)
    return json.loads(out.read_bytes()) if out.exists() else None


def _judge(jobs: dict[str, Any], *, outputs: bool) -> dict[str, Any]:
    selftest = importlib.import_module(f"{jobs['module']}._selftest")
    whole, _ = selftest.compare_all(None, Path(jobs["reference"]))
    found: dict[str, Any] = {
        "verify": all(one.passed for one in whole),
        "selftest": all(one.passed for one in selftest.compare_all()[0]),
    }
    if outputs:
        found["limits"] = {}
        for one in whole:
            limit = found["limits"].get(one.output, 0.0)
            found["limits"][one.output] = max(limit, one.limit)
        found["outputs"] = _outputs(jobs["module"])
    return found


def _outputs(module: str) -> dict[str, list[list[float]]]:
    """What the model computes for other random rows: the values of each row."""
    reference = importlib.import_module(f"{module}._reference")
    ways = importlib.import_module(f"{module}._ways")
    model = importlib.import_module(module).Model()
    rows = reference.load_manifest()["verification"]["rows"][-1]
    found: dict[str, list[list[float]]] = {}
    for call in range(1, _CALLS + 1):
        inputs = reference.make_inputs(rows, 1000 * call)
        for name, values in ways.evaluate(model, inputs).items():
            by_row = values.astype(np.float64).reshape(len(values) if values.shape else 1, -1)
            found.setdefault(name, []).extend(by_row.tolist())
    return found


def _effect(before: dict[str, Any], after: dict[str, Any]) -> str:
    """What a change does to other random rows: `none`, `small` (within the tolerance), `rare` (more) or `large`."""
    worst = "none"
    for name, values in before["outputs"].items():
        one, other = np.array(values), np.array(after["outputs"][name])
        if np.array_equal(one, other, equal_nan=True):
            continue
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        differences = np.abs(np.where(same, 0.0, one - other)).max(axis=1, initial=0.0)
        share = np.mean(~(differences <= before["limits"][name]))
        if share >= _RARE:
            return "large"
        worst = "rare" if share else worst if worst == "rare" else "small"
    return worst


if __name__ == "__main__":
    main(Path(sys.argv[1]))
