"""Cases as one wheel, in a process of its own, as the suite takes a gigabyte.

`python -m tests.conformance.wheel write DIRECTORY` runs a tenth of the suite, prints the outcomes, and writes those that
pass as one model. `python -m tests.conformance.wheel compare DIRECTORY PACKAGES LEVEL...` prints what its wheel gets wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from tests.conformance.cases import Case, names, read_case
from tests.conformance.merge import can_be_wheel, merge
from tests.conformance.run import run_cases

_CHOSEN = "cases.json"


def _write(directory: Path) -> object:
    outcomes = list(run_cases(names()[::10]))
    constants = {o.name: o.constants for o in outcomes if o.verdict == "passed"}
    cases = [case for case in map(read_case, constants) if can_be_wheel(case)]
    (directory / "cases").mkdir()
    merge(cases, constants).save(directory / "cases")
    chosen = {case.name: constants[case.name] for case in cases}
    (directory / _CHOSEN).write_text(json.dumps(chosen), encoding="utf-8")
    return {"outcomes": [asdict(o) for o in outcomes], "merged": len(cases)}


def _compare(directory: Path, packages: Path, levels: Sequence[str]) -> object:
    constants: Mapping[str, Collection[str]] = json.loads((directory / _CHOSEN).read_text())
    cases: list[Case] = [read_case(name) for name in constants]
    merged = merge(cases, constants)
    sys.path.append(str(packages))
    package = import_module("model_onnx_cases")
    return {level: merged.wrong(cases, merged.run(package.Model(level))) for level in levels}


def main(action: str, directory: Path, *rest: str) -> None:
    """Prints what was found as JSON."""
    writes = action == "write"
    found = _write(directory) if writes else _compare(directory, Path(rest[0]), rest[1:])
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
