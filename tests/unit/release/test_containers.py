"""The container engine: the first that answers, or one sentence that says what to do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from modelwheel.errors import EnvironmentProblemError
from modelwheel.release import containers
from modelwheel.release.containers import container_setting, find_engine


def test_no_container_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblemError, match="neither docker nor podman is installed"):
        find_engine(os.environ)
    with pytest.raises(EnvironmentProblemError, match="podman: it is not installed"):
        find_engine({**os.environ, "CIBW_CONTAINER_ENGINE": "podman; create_args: --network=host"})


@pytest.mark.skipif(sys.platform == "win32", reason="a script cannot stand in for docker.exe")
@pytest.mark.parametrize("works", [(), ("podman",), ("docker", "podman")])
def test_the_first_engine_that_works(
    works: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("docker", "podman"):
        code = 0 if name in works else 1
        script = f"#!/bin/sh\necho no daemon for {name} >&2\nexit {code}\n"
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    if works:
        assert find_engine(os.environ) == works[0]
        assert container_setting(os.environ) == f"{works[0]}; disable_host_mount: true"
        given = {**os.environ, "CIBW_CONTAINER_ENGINE": works[0]}
        assert container_setting(given) == works[0]
        return
    sentence = "docker: no daemon for docker; podman: no daemon for podman"
    with pytest.raises(EnvironmentProblemError, match=sentence):
        find_engine(os.environ)


@pytest.mark.skipif(sys.platform == "win32", reason="a script cannot stand in for docker.exe")
def test_an_engine_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setattr(containers, "_ANSWER_SECONDS", 0.2)
    environment = {**os.environ, "CIBW_CONTAINER_ENGINE": str(tmp_path / "docker")}
    with pytest.raises(EnvironmentProblemError, match="docker version` does not answer"):
        find_engine(environment)
