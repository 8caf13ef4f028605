"""What can be said on Linux about the sandboxes of macOS and Windows."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from modelwheel.sandbox import windows
from modelwheel.sandbox.macos import profile
from modelwheel.sandbox.policy import Access, Limits


def test_the_profile_of_macos(tmp_path: Path) -> None:
    scratch, inputs = tmp_path / "scratch", tmp_path / 'in"puts\\'
    (tmp_path / "link").symlink_to(tmp_path)
    text = profile(Access((tmp_path / "link" / inputs.name,), scratch), alone=True)
    rules = text.splitlines()
    # The last rule that matches counts: what is allowed comes after what hides it.
    written = f'(allow file-read* file-write* (subpath "{scratch}"))'
    order = ["(version 1)", "(allow default)", "(deny network*)", "(deny file-write*)", written]
    assert [rule for rule in rules if rule in order] == order
    assert [
        rule
        for rule in rules
        if "allow file-write*" in rule or "allow file-read* file-write*" in rule
    ] == [written]
    (hidden,) = (rule for rule in rules if rule.startswith("(deny file-read* "))
    (shown,) = (rule for rule in rules if rule.startswith("(allow file-read* (subpath"))
    assert rules.index(hidden) < rules.index(shown)
    assert '(subpath "/Users")' in hidden
    # Links are resolved, and a quotation mark does not end the text.
    assert f'(subpath "{tmp_path}/in\\"puts\\\\")' in shown
    assert text.count("(") == text.count(")")
    assert rules[-1] == "(deny process-fork)"
    assert "(deny process-fork)" not in profile(Access((), scratch), alone=False)


def test_the_structures_of_windows() -> None:
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        pytest.skip("the sizes are those of 64 bits")
    assert ctypes.sizeof(windows.BasicLimits) == 64
    assert ctypes.sizeof(windows.ExtendedLimits) == 144
    # winnt.h: where the flags and the limit of each process's memory are.
    assert windows.BasicLimits.flags.offset == 16
    assert windows.ExtendedLimits.process_memory.offset == 112


def test_the_limits_of_a_job() -> None:
    limits = windows.job_limits(Limits(memory_bytes=5, cpu_seconds=2, processes=1))
    assert limits.basic.flags == 0x2000 | 0x400 | 0x100 | 0x8 | 0x2
    assert limits.basic.per_process_user_time == 20_000_000
    assert (limits.process_memory, limits.basic.active_processes) == (5, 1)
    assert windows.job_limits(Limits()).basic.flags == 0x2000 | 0x400


class Api:
    """The functions of Windows that are called, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        for name in (
            "CreateJobObjectW", "OpenProcess", "SetInformationJobObject", "AssignProcessToJobObject",
            "CloseHandle", "NtResumeProcess",
        ):  # fmt: skip
            setattr(self, name, self._function(name))

    def _function(self, name: str) -> object:
        class Function:
            restype: object = None

            def __call__(_, *arguments: object) -> int:  # noqa: ARG002, N805
                self.calls.append(name)
                return 7

        return Function()


def test_a_program_is_limited_before_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api()
    monkeypatch.setattr(ctypes, "WinDLL", lambda *_, **__: api, raising=False)

    class Process:
        def __init__(self, _: list[str], **options: object) -> None:
            api.calls.append(
                "Popen suspended" if int(str(options["creationflags"])) & 4 else "Popen"
            )
            self._handle = 11

    monkeypatch.setattr(subprocess, "Popen", Process)
    process = windows.start_in_job(["x"], Access((), tmp_path), Limits(), {}, {})
    started = [
        "CreateJobObjectW", "SetInformationJobObject", "Popen suspended", "AssignProcessToJobObject",
        "NtResumeProcess",
    ]  # fmt: skip
    assert api.calls == started
    del process
    assert api.calls == [*started, "CloseHandle"]
