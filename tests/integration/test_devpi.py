"""Publishing to an index with a password that is not like PyPI's: devpi, with its own addresses and refusals."""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from modelwheel.errors import PublishError
from tests.support.commands import Modelwheel
from tests.support.index_wheels import make_sdist, make_wheel
from tests.support.sources import closed_port

pytestmark = pytest.mark.exhaustive
PASSWORD = "canary-devpi-5d41402abc4b"


@pytest.fixture
def devpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an index whose files never change."""
    directory, port = str(tmp_path / "devpi"), closed_port()
    make = [sys.executable, "-c", "import devpi_server.init as init; init.init()"]
    options = ["--serverdir", directory, "--root-passwd", PASSWORD]
    subprocess.run([*make, *options], check=True, capture_output=True)
    run = [sys.executable, "-m", "devpi_server", "--serverdir", directory, "--port", str(port)]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen([*run, "--offline-mode"], stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url, server)
        _make_index(url)
        monkeypatch.setenv("TWINE_USERNAME", "root")
        monkeypatch.setenv("TWINE_PASSWORD", PASSWORD)
        yield f"{url}/root/models/"
    finally:
        server.terminate()
        server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and server.poll() is None:
        with suppress(requests.RequestException):
            requests.get(f"{url}/+api", timeout=5)
            return
        time.sleep(0.2)
    raise AssertionError("devpi did not start")


def _make_index(url: str) -> None:
    login = {"user": "root", "password": PASSWORD}
    token = requests.post(f"{url}/+login", json=login, timeout=30).json()["result"]["password"]
    headers = {"X-Devpi-Auth": base64.b64encode(f"root:{token}".encode()).decode()}
    settings = {"type": "stage", "volatile": False, "bases": []}
    made = requests.put(f"{url}/root/models", json=settings, headers=headers, timeout=30)
    assert made.ok, made.text


def test_a_release_on_devpi(devpi: str, tmp_path: Path) -> None:
    modelwheel = Modelwheel(tmp_path / "cache")
    wheel, sdist = make_wheel(tmp_path, "digits"), make_sdist(tmp_path, "digits")
    command = ("publish", "--mode", "token", wheel, sdist, "--repository-url", devpi)
    simple = ("--index-url", f"{devpi}+simple/")
    assert modelwheel(*command, *simple).out.endswith("2 uploaded, 2 compared with the index\n")
    assert modelwheel(*command, *simple).out.endswith("0 uploaded, 2 compared with the index\n")
    make_wheel(tmp_path, "digits", main="changed = True\n")
    refused = modelwheel(*command, *simple, code=PublishError.exit_code)
    assert "on the index with different contents" in refused.err
    refused = modelwheel(*command, code=PublishError.exit_code)  # and without its simple API
    assert "409" in refused.err
    assert "--index-url, for devpi the one that ends with +simple/" in refused.err
    assert PASSWORD not in refused.err
