"""docs/tutorial.md and docs/serving.md, line by line, in an environment of their own."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sysconfig
import urllib.request
import venv
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from modelwheel.extras import distributions
from tests.support.commands import Modelwheel
from tests.support.pages import ROOT, Block, blocks

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

_TUTORIAL, _SERVING = ROOT / "docs" / "tutorial.md", ROOT / "docs" / "serving.md"
_EXTRA = re.compile(r"'modelwheel\[([a-z,]+)\]'")
"""modelwheel itself is installed beforehand: what an extra needs has to be known."""


class _Reader:
    """Does what a page says."""

    def __init__(self, directory: Path, store: Path) -> None:
        self.directory = directory
        self.environment = directory / "environment"
        venv.EnvBuilder(with_pip=True, symlinks=True).create(self.environment)
        site = next(self.environment.glob("lib/python*/site-packages"))
        (site / "around.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
        for name in ("data", "models"):  # empty repositories, as a host of git makes them
            subprocess.run(
                ["git", "init", "--quiet", "--bare", directory / f"{name}.git"], check=True
            )
        who = {"NAME": "reader", "EMAIL": "reader@example.org"}
        tools = os.pathsep.join((str(self.environment / "bin"), sysconfig.get_path("scripts")))
        self.variables = {
            **os.environ,
            **{
                f"GIT_{role}_{what}": text
                for role in ("AUTHOR", "COMMITTER")
                for what, text in who.items()
            },
            "DATA": str(directory / "data.git"),
            "MODELS": str(directory / "models.git"),
            "MODELWHEEL_CACHE_DIR": str(store),
            "PATH": os.pathsep.join((tools, os.environ["PATH"])),
        }

    def follow(self, block: Block) -> None:
        """Runs a block."""
        if block.language == "sh":
            for line in block.text.splitlines():
                if extra := _EXTRA.search(line):
                    assert all(distributions(one) for one in extra[1].split(","))
                else:
                    self.run("bash", "-euc", line)
        elif block.language == "python":
            self.run(str(self.environment / "bin" / "python"), "-c", block.text)

    def run(self, *command: str) -> None:
        """Runs a program, which has to succeed."""
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def reader(modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory) -> _Reader:
    """Somebody who has done what the tutorial says."""
    found = _Reader(tmp_path_factory.mktemp("tutorial"), modelwheel.cache)
    for block in blocks(_TUTORIAL):
        found.follow(block)
    return found


def test_the_tutorial_ends_with_a_prediction(reader: _Reader) -> None:
    """Its last block compares the wheel with Keras."""
    assert list(reader.directory.glob("dist/model_spirals-1.0.0-*.whl"))


def test_a_proposal_is_one_file_with_a_pin(reader: _Reader) -> None:
    """What the pull request of the tutorial has."""
    models = ("git", "-C", reader.directory / "models.git")
    changed = subprocess.check_output(
        [*models, "diff", "--name-only", "main", "spirals"], text=True
    )
    assert changed == "model_specs/spirals.yaml\n"
    spec = subprocess.check_output([*models, "show", f"spirals:{changed.strip()}"], text=True)
    data = ("git", "-C", reader.directory / "data.git")
    commit = subprocess.check_output([*data, "rev-parse", "main"], text=True).strip()
    assert commit in spec
    assert "weights_license: CC-BY-4.0" in spec


def test_a_web_server_serves_a_model(reader: _Reader) -> None:
    (code,) = blocks(_SERVING, "python")
    install, start = next(blocks(_SERVING, "sh")).text.splitlines()
    reader.run("bash", "-euc", install)
    (reader.directory / "server.py").write_text(code.text, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["bash", "-euc", f"exec {start.replace('8000', str(port))}"]
    server = subprocess.Popen(command, cwd=reader.directory, env=reader.variables)
    try:
        assert _ask(port, [[1.0, 2.0], [-3.0, 0.5]]) == pytest.approx(
            _predict(reader, [[1.0, 2.0], [-3.0, 0.5]]), abs=1e-6
        )
    finally:
        server.terminate()
        server.wait()


def _ask(port: int, points: list[list[float]]) -> Any:
    """What the server answers, as soon as it does."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/predict",
        data=json.dumps(points).encode(),
        headers={"Content-Type": "application/json"},
    )
    end = monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except OSError:
            if monotonic() > end:
                raise
            sleep(0.2)


def _predict(reader: _Reader, points: list[list[float]]) -> Any:
    """What the wheel computes without a server."""
    code = (
        "import json, sys, model_spirals, numpy as np;"
        "points = np.asarray(json.loads(sys.argv[1]), 'float32');"
        "print(json.dumps(model_spirals.Model()(points)[:, 0].tolist()))"
    )
    python = str(reader.environment / "bin" / "python")
    command = [python, "-c", code, json.dumps(points)]
    return json.loads(subprocess.check_output(command, env=reader.variables, text=True))


def test_the_image_of_the_server_is_made_of_these_files() -> None:
    """No image can be pulled here: the lines of the Dockerfile are those of the page's other blocks."""
    (image,) = (block.text for block in blocks(_SERVING, "dockerfile"))
    install, start = next(blocks(_SERVING, "sh")).text.splitlines()
    assert install.removeprefix("pip install ") in image
    assert all(word in image for word in start.split()[:2])
