"""Running programs: what is captured, what an error says, what survives a timeout.

The programs are Python's, so that these tests mean the same on every system.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from modelwheel.util.processes import guard
from modelwheel.util.processes.groups import CREATION_FLAGS, kill_group
from modelwheel.util.processes.process import (
    ProcessError,
    ProcessTimeoutError,
    kill_all,
    run,
    stream,
)
from tests.support.portability import IS_WINDOWS, behave_like_windows, both_systems
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures(both_systems.__name__)

POSIX = pytest.mark.skipif(IS_WINDOWS, reason="Windows has no signals that end a program")

FAMILY = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[1]).write_text(f"{child.pid}\\n")
child.wait()
"""
"""Starts a child, writes its number into a file, and waits for it."""


def python(script: str, *args: object) -> list[str]:
    return [sys.executable, "-c", script, *map(str, args)]


def _wait_for(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_output_is_captured_and_input_is_passed() -> None:
    script = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()); sys.stderr.write('err')"
    done = run(python(script), input=b"in\xff")
    assert (done.stdout, done.stderr, done.returncode) == (b"in\xff", b"err", 0)


def test_a_program_without_input_reads_nothing_of_ours() -> None:
    assert run(python("import sys; print(len(sys.stdin.read()))"), timeout=20).text.strip() == "0"


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        assert run(python("print('x')"), stdout=file).stdout == b""
    assert (tmp_path / "out").read_text() == "x\n"


def test_arguments_reach_no_shell(tmp_path: Path) -> None:
    hostile = f"$(touch {tmp_path}/marker); `touch {tmp_path}/marker`\n& | %PATH% \"'"
    script = "import sys; sys.stdout.buffer.write(sys.argv[1].encode())"
    assert run(python(script, hostile)).text == hostile
    assert not (tmp_path / "marker").exists()


def test_a_failure_says_command_code_and_the_last_lines() -> None:
    script = "import sys\nfor n in range(1, 101): print(n, file=sys.stderr)\nsys.exit(3)"
    with pytest.raises(ProcessError) as caught:
        run(python(script))
    message = str(caught.value)
    assert message.startswith("`")
    assert "sys.exit(3)" in message
    assert "` failed with exit code 3:\n" in message
    assert message.splitlines()[-20:] == [str(number) for number in range(81, 101)]
    assert caught.value.returncode == 3


@POSIX
def test_a_signal_is_named() -> None:
    with pytest.raises(ProcessError, match="killed by SIGSEGV") as caught:
        run(python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))
    assert caught.value.returncode == -11


def test_failure_can_be_the_callers_business() -> None:
    assert run(python("raise SystemExit(1)"), check=False).returncode == 1


def test_a_missing_program_says_so() -> None:
    with pytest.raises(ProcessError, match="install 'no-such-program'"):
        run(["no-such-program", "x"])


def test_a_timeout_kills_the_whole_group(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with pytest.raises(ProcessTimeoutError, match="took longer than 3 s"):
        run(python(FAMILY, file), timeout=3)
    pid = _wait_for(file)
    wait_until(lambda: not _alive(pid))


def test_an_interrupted_builder_ends_what_its_threads_started(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    errors: list[BaseException] = []

    def work() -> None:
        try:
            run(python(FAMILY, file))
        except ProcessError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    pid = _wait_for(file)
    kill_all()
    thread.join(20)
    assert "killed by" in str(errors[0]) or "exit code" in str(errors[0])
    wait_until(lambda: not _alive(pid))


@POSIX
def test_what_a_killed_program_has_started_ends_too(tmp_path: Path) -> None:
    """As after SIGKILL of a build: CMake, its compilers and theirs."""
    script = "import sys; from modelwheel.util.processes.process import run; run(sys.argv[1:])"
    with subprocess.Popen(python(script, *python(FAMILY, tmp_path / "pid"))) as builder:
        child = _wait_for(tmp_path / "pid")
        members = [psutil.Process(child), psutil.Process(child).parent()]
        assert all(member is not None and _alive(member.pid) for member in members)
        builder.kill()
    wait_until(lambda: not any(_alive(member.pid) for member in members if member))


@POSIX
def test_the_guard_forgets_what_has_ended() -> None:
    """The number of a group that has ended may be that of another program when this one is killed."""
    told: list[tuple[str, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "watch", lambda group: told.append(("watch", group)))
        patch.setattr(guard, "forget", lambda group: told.append(("forget", group)))
        run(python("pass"))
    (first, started), (last, ended) = told
    assert (first, last, started) == ("watch", "forget", ended)


def test_a_group_that_has_ended_is_left_alone() -> None:
    process = subprocess.Popen(python("pass"), start_new_session=True, creationflags=CREATION_FLAGS)
    process.wait()
    kill_group(process)
    assert process.returncode == 0


@POSIX
def test_ctrl_c_kills_the_whole_group(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = f"""
import os, pathlib, signal, sys, threading, time
from modelwheel.util.processes.process import run
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background inherit none
path = pathlib.Path(sys.argv[1])
def interrupt():
    while not path.exists() or not path.read_text().endswith("\\n"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    run([sys.executable, "-c", {FAMILY!r}, path])
except KeyboardInterrupt:
    print("interrupted")
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert run(python(script, file), env=env, timeout=60).text == "interrupted\n"
    pid = _wait_for(file)
    wait_until(lambda: not _alive(pid))


def test_lines_are_passed_on_as_they_come(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = """
import pathlib, sys, time
print("https://canary@host", flush=True)
print("err", file=sys.stderr, flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
sys.exit(3)
"""
    seen: list[str] = []

    def take(line: str) -> None:
        seen.append(line)
        if line == "err":
            gate.touch()  # without which the program does not end

    done = stream(python(script, gate), take)
    assert seen == ["https://***@host", "err"]
    assert (done.text, done.returncode) == ("https://***@host\nerr", 3)


def test_a_program_whose_lines_are_refused_can_tidy_up(tmp_path: Path) -> None:
    marker = tmp_path / "tidied"
    script = """
import pathlib, signal, sys, time
def tidy(*_):
    pathlib.Path(sys.argv[1]).touch()
    sys.exit()
signal.signal(getattr(signal, "SIGBREAK", signal.SIGINT), tidy)
print("up", flush=True)
while True:
    time.sleep(0.01)
"""

    def refuse(line: str) -> None:
        raise RuntimeError(line)

    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="up"):
        stream(python(script, marker), refuse)
    assert marker.exists()
    assert time.monotonic() - begin < 30


def test_credentials_reach_neither_log_nor_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    script = "import sys; print(sys.argv[1], file=sys.stderr); sys.exit(1)"
    with pytest.raises(ProcessError) as caught:
        run(python(script, "https://u:canary@h/?t=canary"))
    assert "canary" not in str(caught.value) + caught.value.output + caplog.text
    assert "https://***@h/" in str(caught.value)
    assert "sys.argv[1]" in caplog.text


def test_without_psutil_a_tree_is_killed_by_the_tool_of_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    behave_like_windows(monkeypatch)
    monkeypatch.setitem(sys.modules, "psutil", None)
    called: list[list[str]] = []
    with monkeypatch.context() as patch:
        process = subprocess.Popen(python("import time; time.sleep(600)"))
        patch.setattr(subprocess, "run", lambda argv, **_: called.append(argv))
        kill_group(process)
    process.send_signal(signal.SIGTERM)
    process.wait()
    assert called == [["taskkill", "/F", "/T", "/PID", str(process.pid)]]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows sessions")
@pytest.mark.parametrize("end", ["kill_all", "guard"])
def test_compilers_that_ninja_gives_a_group_of_their_own_end_with_it(
    end: str, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    program = f"import os, time\nif not os.fork():\n  os.setpgid(0, 0)\n  open({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    code = (
        "import sys, threading, time, pathlib\n"
        "from modelwheel.util.processes.process import kill_all, run\n"
        "work = threading.Thread(target=run, args=([sys.executable, '-c', sys.argv[1]],), kwargs={'check': False}, daemon=True)\n"
        "work.start()\n"
        "while not pathlib.Path(sys.argv[2]).exists() or not pathlib.Path(sys.argv[2]).read_text(): time.sleep(0.02)\n"
        "if sys.argv[3] == 'guard': import os; os.kill(os.getpid(), 9)\n"
        "kill_all(); work.join()\n"
    )
    subprocess.run([sys.executable, "-c", code, program, str(pid), end], check=False)
    child = Path(f"/proc/{pid.read_text()}/stat")
    wait_until(lambda: not child.exists() or ") Z " in child.read_text())
