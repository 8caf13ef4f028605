"""`make release-demo`: two specs from compiling to an index that serves their wheels, and a consumer.

Everything is real: cibuildwheel in a container, a package index that requires a password, pip in an
empty environment. All files land under `.demo/release/`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.containers import image
from tests.containers.apt import UnavailableError
from tests.demo.data import WORK, console, pin_spec, run, say
from tests.demo.train import held_out
from tests.support.foreign import FOREIGN, require_windows, run_here, run_windows_wheel
from tests.support.indexes import PASSWORD, USER, Index, serve_index
from tests.support.site_server import serve

MODELS = ("digits", "parity")
RELEASE = WORK / "release"
COMMAND = (sys.executable, "-m", "modelwheel")

_T = TypeVar("_T")


@dataclass
class Record:
    """What was done, for the table at the end."""

    rows: list[tuple[str, str, float]] = field(default_factory=list)

    def do(self, what: str, action: Callable[[], _T], tell: Callable[[_T], str]) -> _T:
        """Does one thing, and notes what came of it and how long it took."""
        say(what)
        start = time.monotonic()
        result = action()
        self.rows.append((what, tell(result), time.monotonic() - start))
        return result

    def print(self) -> None:
        """The table that the README shows."""
        table = Table("step", "result", "seconds", title="a release, from specs to predictions")
        for what, result, seconds in self.rows:
            table.add_row(what, result, f"{seconds:.0f}")
        Console(width=110).print(table)


def main() -> None:
    """Runs every step and prints what came out."""
    shutil.rmtree(RELEASE, ignore_errors=True)
    record = Record()
    specs = record.do("train, pin", lambda: [pin_spec(name) for name in MODELS], _names)
    sdists = record.do("modelwheel compile", lambda: compile_specs(specs), _names)
    wheels = record.do("modelwheel wheel", lambda: build_wheels(sdists), _names)
    record.do("modelwheel audit", lambda: modelwheel("audit", *wheels), _accepted)
    with serve_index(RELEASE / "server") as index:
        record.do("modelwheel publish", lambda: publish(wheels, index), _last_line)
        record.do("the same again", lambda: publish(wheels, index), _last_line)
        record.do("twine upload", lambda: upload_again(wheels[0], index), str)
        record.do("pip install, predict", lambda: consume(f"{index.url}simple/"), str)
    record.do("modelwheel index", lambda: write_site(wheels), _after_colon)
    with serve(RELEASE / "site") as site:
        record.do("pip install from it, predict", lambda: consume(f"{site.url}simple/"), str)
    bundle = record.do("modelwheel bundle", lambda: make_bundle(specs[-1]), lambda path: path.name)
    for name, run_there in FOREIGN.items():
        record.do(f"the bundle on {name}", partial(compare, bundle, name, run_there), str)
    (sdist,) = (path for path in sdists if f"model_{MODELS[-1]}-" in path.name)
    run_dll = partial(run_cross_built, sdist)
    record.do("the wheel's DLL on Windows", lambda: compare(bundle, "Windows", run_dll), str)
    record.print()


def compile_specs(specs: list[Path]) -> list[Path]:
    """A source distribution for each spec, for all platforms, and that of what parity's wheels need."""
    out = RELEASE / "sdist"
    modelwheel("compile", *specs, "--out", out)
    modelwheel("runtime", "--out", out)
    return sorted(out.glob("*.tar.gz"))


def build_wheels(sdists: list[Path]) -> list[Path]:
    """The wheels for Linux and two CPythons, by cibuildwheel in a container."""
    out = RELEASE / "wheels"
    only = " ".join(f"{python}-manylinux_x86_64" for python in image.PYTHONS)
    modelwheel("wheel", *sdists, "--out", out, "--only", only, env=image.environment())
    return sorted(out.glob("*.whl"))


def make_bundle(spec: Path) -> Path:
    """A static library for Linux and Windows, with its test."""
    out = RELEASE / "bundle"
    modelwheel("bundle", spec, "--platform", "linux-x86_64,windows-amd64", "--out", out)
    (bundle,) = out.iterdir()
    return bundle


def run_cross_built(sdist: Path, bundle: Path, work: Path) -> str:
    """What the test of a bundle prints with the shared library of the wheel for Windows."""
    require_windows()
    modelwheel("wheel", sdist, "--cross", "win_amd64", "--out", RELEASE / "windows")
    (wheel,) = (RELEASE / "windows").glob("*.whl")
    return run_windows_wheel(wheel, bundle, work)


def compare(bundle: Path, name: str, run_there: Callable[[Path, Path], str]) -> str:
    """Whether the test of a bundle prints the same elsewhere: every line has a hash of an output."""
    try:
        lines = run_there(bundle, bundle.parent)
    except UnavailableError as problem:
        return f"not run: {problem}"
    if lines != run_here(bundle, bundle.parent):
        raise SystemExit(f"other results on {name}:\n{lines}")
    found = dict.fromkeys(line.split("  ")[0] for line in lines.splitlines() if " rows  " in line)
    return f"{lines.count(' rows  ')} outputs equal to Linux's, {', '.join(found)}"


def publish(wheels: list[Path], index: Index) -> str:
    """Uploads the wheels, as a release does; returns what the command said."""
    env = {"TWINE_USERNAME": USER, "TWINE_PASSWORD": PASSWORD}
    return modelwheel("publish", *wheels, "--repository-url", index.url, env=env)


def upload_again(wheel: Path, index: Index) -> str:
    """A released file cannot be replaced: the index refuses it."""
    command = [sys.executable, "-m", "twine", "upload", "--non-interactive", "--username", USER,
               "--password", PASSWORD, "--repository-url", index.url, str(wheel)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "400" in done.stdout + done.stderr, done.stdout + done.stderr
    return "refused: the file exists"


def write_site(wheels: list[Path]) -> str:
    """A static index and the catalogue of the same wheels."""
    return modelwheel("index", wheels[0].parent, "--out", RELEASE / "site")


def consume(index_url: str) -> str:
    """Installs both models from an index into an empty environment, and lets them predict."""
    environment = RELEASE / "consumer"
    venv.EnvBuilder(clear=True, with_pip=False, symlinks=True).create(environment)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--quiet", "--python", python, "install", "--no-cache-dir")
    run(*pip, "numpy")
    # Nothing but this index may serve the models: a machine's own settings are left out.
    names = [f"model-{name}" for name in MODELS]
    alone = {"PIP_CONFIG_FILE": os.devnull, "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}
    run(*pip, "--index-url", index_url, *names, env={**os.environ, **alone})
    images, labels = held_out()[2:]
    np.savez(RELEASE / "held-out.npz", images=images, labels=labels)
    script = Path(__file__).with_name("predict_release.py")
    answers: dict[str, Any] = json.loads(
        run(python, "-I", script, RELEASE / "held-out.npz", capture=True)
    )
    return ", ".join(f"{name} {accuracy:.2%}" for name, accuracy in answers.items())


def modelwheel(*arguments: str | Path, env: dict[str, str] | None = None) -> str:
    """Runs the command; returns what it printed."""
    wide = {**os.environ, "COLUMNS": "160"}
    printed = run(*COMMAND, *arguments, capture=True, env={**wide, **(env or {})})
    console.print(printed.strip(), highlight=False, markup=False, soft_wrap=True)
    return printed


def _names(paths: list[Path]) -> str:
    return "\n".join(path.name for path in paths)


def _accepted(text: str) -> str:
    return f"{text.count('accepted')} wheels accepted"


def _after_colon(text: str) -> str:
    return text.partition(": ")[2].strip()


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


if __name__ == "__main__":
    try:
        main()
    except UnavailableError as problem:
        print(f"release-demo: skipped: {problem}")  # noqa: T201
        sys.exit(77)
