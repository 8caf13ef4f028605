"""Which sandbox is chosen, and what is said where none works."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwheel.sandbox import landlock, seccomp
from modelwheel.sandbox.choose import Sandbox, choose_sandbox, find_sandbox
from modelwheel.sandbox.policy import Limits, Policy, SandboxError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes of Linux")


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    find_sandbox.cache_clear()
    yield
    find_sandbox.cache_clear()


@pytest.fixture
def bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bubblewrap that this machine keeps from running."""
    path = tmp_path / "bwrap"
    path.write_text("#!/bin/sh\necho 'bwrap: no namespaces' >&2\nexit 1\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return path


def test_landlock_where_bubblewrap_does_not_run(bwrap: Path) -> None:
    assert bwrap.exists()
    chosen = choose_sandbox(Policy.REQUIRED, Limits(wall_seconds=5))
    assert chosen == Sandbox(
        "landlock", "Landlock, seccomp and resource limits", limits=Limits(wall_seconds=5)
    )
    assert find_sandbox()[1] == ("bubblewrap does not run here (bwrap: no namespaces)",)


def test_none(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(landlock, "version", lambda: 2)
    why = "bubblewrap is not installed; the kernel has Landlock 2, not 3 or newer"
    with pytest.raises(SandboxError) as refused:
        choose_sandbox(Policy.REQUIRED)
    assert str(refused.value) == (
        f"no sandbox works on this machine: {why}. `modelwheel doctor` says how to get one; "
        "--sandbox preferred runs models without, as safe as this machine can"
    )
    assert caplog.messages == []
    chosen = choose_sandbox(Policy.PREFERRED)
    # Better than nothing.
    assert (chosen.kind, chosen.confines) == ("partial", True)
    assert chosen.name == f"Landlock, seccomp and resource limits alone ({why})"
    (warning,) = caplog.messages
    assert why in warning


def test_a_kernel_without_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(seccomp, "is_available", lambda: False)
    with pytest.raises(SandboxError, match="the kernel does not allow seccomp filters"):
        choose_sandbox(Policy.REQUIRED)


def test_off_looks_for_none_and_says_what_it_gives_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("modelwheel.sandbox.choose.find_sandbox", None)
    chosen = choose_sandbox(Policy.OFF)
    assert (chosen.name, chosen.confines) == ("none (switched off)", False)
    (warning,) = caplog.messages
    assert "a model can read and change your files, use the network and start programs" in warning
