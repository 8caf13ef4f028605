"""Running programs: what is captured, what an error says, what survives a timeout."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from modelwheel.util.process import ProcessError, ProcessTimeoutError, kill_all, run, stream


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _wait_for(path: Path) -> str:
    deadline = time.monotonic() + 20
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text()


def _wait_until_dead(pid: int) -> None:
    deadline = time.monotonic() + 20
    while _is_alive(pid):
        assert time.monotonic() < deadline, "a grandchild survived"
        time.sleep(0.01)


def test_output_is_captured_and_input_is_passed() -> None:
    done = run(["sh", "-c", "cat; echo err >&2"], input=b"in\xff")
    assert (done.stdout, done.stderr, done.returncode) == (b"in\xff", b"err\n", 0)


def test_a_program_without_input_reads_nothing_of_ours() -> None:
    assert run(["cat"], timeout=20).stdout == b""


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        assert run(["echo", "x"], stdout=file).stdout == b""
    assert (tmp_path / "out").read_text() == "x\n"


def test_arguments_reach_no_shell(tmp_path: Path) -> None:
    hostile = f"$(touch {tmp_path}/marker); `touch {tmp_path}/marker`\n&"
    assert run(["printf", "%s", hostile]).text == hostile
    assert not (tmp_path / "marker").exists()


def test_a_failure_says_command_code_and_the_last_lines() -> None:
    with pytest.raises(ProcessError) as caught:
        run(["sh", "-c", "seq 100 >&2; exit 3"])
    lines = str(caught.value).splitlines()
    assert lines[0] == "`sh -c 'seq 100 >&2; exit 3'` failed with exit code 3:"
    assert lines[1:] == [str(number) for number in range(81, 101)]
    assert caught.value.returncode == 3


def test_a_signal_is_named() -> None:
    with pytest.raises(ProcessError, match="killed by SIGSEGV") as caught:
        run(["sh", "-c", "kill -SEGV $$"])
    assert caught.value.returncode == -11


def test_failure_can_be_the_callers_business() -> None:
    assert run(["false"], check=False).returncode == 1


def test_a_missing_program_says_so() -> None:
    with pytest.raises(ProcessError, match="install 'no-such-program'"):
        run(["no-such-program", "x"])


def test_a_timeout_kills_the_whole_group(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with pytest.raises(ProcessTimeoutError, match="took longer than 1 s"):
        run(["sh", "-c", f"sleep 600 & echo $! > {file}; wait"], timeout=1)
    _wait_until_dead(int(file.read_text()))


def test_an_interrupted_builder_ends_what_its_threads_started(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    errors: list[BaseException] = []

    def work() -> None:
        try:
            run(["sh", "-c", f"sleep 600 & echo $! > {file}; wait"])
        except ProcessError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    pid = int(_wait_for(file))
    kill_all()
    thread.join(20)
    assert "killed by SIGKILL" in str(errors[0])
    _wait_until_dead(pid)


def test_ctrl_c_kills_the_whole_group(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = f"""
import pathlib, signal, threading, time
from modelwheel.util.process import run
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background inherit none
def interrupt():
    path = pathlib.Path({str(file)!r})
    while not path.exists() or not path.read_text().endswith("\\n"):
        time.sleep(0.01)
    import os, signal
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    run(["sh", "-c", "sleep 600 & echo $! > {file}; wait"])
except KeyboardInterrupt:
    print("interrupted")
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert run([sys.executable, "-c", script], env=env, timeout=60).text == "interrupted\n"
    _wait_until_dead(int(file.read_text()))


def test_lines_are_passed_on_as_they_come(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = (
        f"echo https://canary@host; echo err >&2; until test -e {gate}; do sleep 0.01; done; exit 3"
    )
    seen: list[str] = []

    def take(line: str) -> None:
        seen.append(line)
        if line == "err":
            gate.touch()  # without which the program does not end

    done = stream(["sh", "-c", script], take)
    assert seen == ["https://***@host", "err"]
    assert (done.text, done.returncode) == ("https://***@host\nerr", 3)


def test_what_takes_no_more_lines_lets_the_program_tidy_up(tmp_path: Path) -> None:
    marker = tmp_path / "tidied"
    script = f"trap 'echo tidy; touch {marker}; exit' INT; echo up; while :; do sleep 0.01; done"

    def refuse(line: str) -> None:
        raise RuntimeError(line)

    with pytest.raises(RuntimeError, match="up"):
        stream(["sh", "-c", script], refuse)
    assert marker.exists()


def test_credentials_reach_neither_log_nor_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ProcessError) as caught:
        run(["sh", "-c", "echo $0 $0 >&2; exit 1", "https://u:canary@h/?t=canary"])
    assert "canary" not in str(caught.value) + caught.value.output + caplog.text
    assert "https://***@h/" in str(caught.value)
    assert "$ sh -c" in caplog.text
