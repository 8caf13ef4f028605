"""Damaged model files, files of arrays, and a package's name beside a spec: what each command says about them."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from tests.models.damaged import damaged_files, spec_name, write_specs
from tests.models.hostile import Victim
from tests.support.onnx_models import info

Run = Callable[..., str]
"""Runs modelwheel with these arguments; returns its first error, or "" if it ended well."""


def damaged_models(
    directory: Path,
    check: Callable[..., subprocess.CompletedProcess[str]],
    verdict: Callable[..., str],
) -> Iterator[tuple[str, str]]:
    """Checks all files at once; yields what each attempts, and what was said.

    Args:
        directory: For the files.
        check: Runs modelwheel.
        verdict: What a row of `check --json` refuses.
    """
    files = list(damaged_files())
    done = check("check", write_specs(directory, files), "--json")
    rows = {row["model"].removesuffix("-1.0.0"): row for row in json.loads(done.stdout)["models"]}
    for one in files:
        said = verdict(rows[spec_name(one.file)])
        # Another reason than its damage would show nothing.
        yield f"a damaged file: {one.file}", said if one.says in said else ""


def crashing_operation(directory: Path, _: Victim, run: Run) -> str:
    """ONNX Runtime ends its process where Split leaves an output out."""
    _write_model(directory, [helper.make_node("Split", ["x"], ["y", ""], name="halves", axis=1)])
    said = run("build", _spec(directory), "--out", directory)
    return said if "Split 'halves'" in said else ""


def samples_of_petabytes(directory: Path, _: Victim, run: Run) -> str:
    """An array whose header says more than its file has."""
    _write_model(directory, [helper.make_node("Relu", ["x"], ["y"])])
    path = directory / "model" / "rows.npz"
    header = {"descr": "<f4", "fortran_order": False, "shape": (10**15, 4)}
    with zipfile.ZipFile(path, "w") as archive, archive.open("x.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, header)
    said = run("build", _spec(directory, "verify: {samples: rows.npz}"), "--out", directory)
    return said if "has 0 bytes" in said else ""


def shadowed_packages(directory: Path, victim: Victim, _: Run) -> str:
    """Modules with the names of packages in the directory where the command is started."""
    for name in ("build", "typer", "yaml", "pydantic", "numpy"):
        source = f"open({str(victim.marker(name))!r}, 'w')\nraise SystemExit('ran')\n"
        (directory / f"{name}.py").write_text(source, encoding="utf-8")
    spec = directory / "a.yaml"
    spec.write_text("nonsense: 1\n", encoding="utf-8")
    command = [sys.executable, "-m", "modelwheel", "check", "--spec-only", str(spec)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    return next((line for line in done.stderr.splitlines() if line.startswith("error: ")), "")


DAMAGE_ATTACKS: dict[str, Callable[[Path, Victim, Run], str]] = {
    "an ONNX file crashes the runtime that it is compared with": crashing_operation,
    "a file of samples says that it has more than it holds": samples_of_petabytes,
    "modules beside a spec have the names of packages": shadowed_packages,
}
"""What each tries."""


def _write_model(directory: Path, nodes: list[onnx.NodeProto]) -> None:
    (directory / "model").mkdir()
    outputs = [info("y", ["n", 2 if nodes[0].op_type == "Split" else 4])]
    graph = helper.make_graph(nodes, "graph", [info("x", ["n", 4])], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, directory / "model" / "m.onnx")


def _spec(directory: Path, *lines: str) -> Path:
    path = directory / "evil.yaml"
    source = 'model: {name: evil, version: "1.0.0"}\nsource: {directory: model, path: m.onnx}'
    path.write_text("\n".join([source, *lines, ""]), encoding="utf-8")
    return path
