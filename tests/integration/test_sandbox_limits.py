"""How sandboxed programs end: at a limit, with their parent, never because a thread ended."""

from __future__ import annotations

import json
import marshal
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import modelwheel
from modelwheel.sandbox.choose import Sandbox
from modelwheel.sandbox.messages import READY
from modelwheel.sandbox.policy import Access, Limits, SandboxError, environment
from modelwheel.sandbox.run import run_sandboxed
from modelwheel.util.processes.process import ProcessTimeoutError
from tests.support.prison import find
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes of Linux")

PIPELINE = str(Path(modelwheel.__file__).parents[1])
MIB = 1 << 20


@pytest.fixture(params=["bubblewrap", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    try:
        return find(request.param)
    except LookupError as error:
        pytest.skip(str(error))


def run(sandbox: Sandbox, code: str, limits: Limits, scratch: Path) -> tuple[int, str, str]:
    argv = [sys.executable, "-I", "-c", code]
    done = run_sandboxed(sandbox, argv, Access((), scratch), limits, environment({}))
    return done.returncode, done.text.strip(), done.stderr.decode()


def running(marker: str) -> list[int]:
    """Processes with a text in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_processor_time(sandbox: Sandbox, tmp_path: Path) -> None:
    code, _, _ = run(sandbox, "while True: pass", Limits(cpu_seconds=1), tmp_path)
    assert code == -signal.SIGXCPU


def test_processor_time_of_a_program_that_ignores_the_first_signal(tmp_path: Path) -> None:
    program = "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    code, _, _ = run(find("landlock"), program, Limits(cpu_seconds=1), tmp_path)
    assert code == -signal.SIGKILL


def test_wall_clock(sandbox: Sandbox, tmp_path: Path) -> None:
    marker = f"wall-clock-{os.getpid()}-{sandbox.kind}"
    program = f"import time; time.sleep(100)  # {marker}"
    with pytest.raises(ProcessTimeoutError, match=r"took longer than 0\.5 s and was stopped"):
        run(sandbox, program, Limits(wall_seconds=0.5, processes=1), tmp_path)
    wait_until(lambda: running(marker) == [])


def test_memory_and_threads(sandbox: Sandbox, tmp_path: Path) -> None:
    limits = Limits(memory_bytes=256 * MIB, processes=1)
    program = "import threading; x = bytearray(100 << 20); threading.Thread(target=print).start()"
    assert run(sandbox, program, limits, tmp_path)[0] == 0
    cores = os.cpu_count() or 1
    _, _, said = run(sandbox, f"bytearray((256 + 64 * {cores}) << 20)", limits, tmp_path)
    assert said.endswith("MemoryError\n")


def test_what_it_prints_counts_as_a_file(sandbox: Sandbox, tmp_path: Path) -> None:
    program = "import sys\nwhile True: sys.stdout.write('x' * 4096)"
    code, out, said = run(sandbox, program, Limits(file_bytes=MIB), tmp_path)
    assert (code, len(out)) == (1, MIB)
    assert "File too large" in said


def test_limits_are_lowered_and_never_raised(sandbox: Sandbox, tmp_path: Path) -> None:
    program = """
import json, resource
print(json.dumps([resource.getrlimit(getattr(resource, "RLIMIT_" + name))
                  for name in ("CORE", "NOFILE", "CPU", "FSIZE")]))
try:
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
except (ValueError, OSError):
    pass
else:
    raise SystemExit("raised")
"""
    limits = Limits(cpu_seconds=7, file_bytes=MIB, processes=1)
    code, out, said = run(sandbox, program, limits, tmp_path)
    assert (code, json.loads(out)) == (0, [[0, 0], [1024, 1024], [7, 8], [MIB, MIB]]), said


def test_the_environment_is_chosen(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TOKEN", "LD_PRELOAD", "PYTHONPATH", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    program = "import json, os; print(json.dumps([dict(os.environ), os.getcwd()]))"
    _, out, _ = run(sandbox, program, Limits(), tmp_path)
    variables, directory = json.loads(out)
    assert directory == str(tmp_path)
    assert {variables[name] for name in ("HOME", "TMPDIR")} == {str(tmp_path)}
    assert variables["LC_ALL"] == "C.UTF-8"
    assert "secret" not in variables.values()


def test_a_program_that_does_not_exist(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="cannot run /no/program in the sandbox: No such file"):
        sandbox.start(["/no/program"], Access((), tmp_path), Limits(), environment({}))


def test_a_program_outlives_the_thread_that_started_it(sandbox: Sandbox, tmp_path: Path) -> None:
    processes = []

    def start() -> None:
        argv = [sys.executable, "-I", "-c", "import sys; sys.stdin.read(1); print('alive')"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        processes.append(
            sandbox.start(argv, Access((), tmp_path), Limits(), environment({}), **pipes)
        )

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    time.sleep(0.2)
    out, _ = processes[0].communicate(b"x", timeout=20)
    assert out == b"alive\n"


_STARTS = """
import sys, time
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from modelwheel.sandbox.policy import Access, Limits, environment
from tests.support.prison import find
process = find(sys.argv[3]).start(
    [sys.executable, "-I", "-c", sys.argv[5], sys.argv[1]], Access((), Path(sys.argv[4])),
    Limits(), environment({}))
print(flush=True)
process.wait()
"""

_SERVES = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from modelwheel.sandbox.confine import confine
from modelwheel.sandbox.policy import Access, Limits
if os.fork() == 0:
    confine(Access((), Path.cwd()), Limits())
Path(str(os.getpid())).touch()
time.sleep(300)
"""


def test_nothing_is_left_when_the_parent_is_killed(sandbox: Sandbox, tmp_path: Path) -> None:
    marker = f"# left-{os.getpid()}-{sandbox.kind}"
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", _STARTS, PIPELINE, root, sandbox.kind, str(tmp_path)]
    parent = subprocess.Popen([*command, _SERVES + marker], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    parent.stdout.readline()
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2)  # the server and its child
    assert len(running(marker)) >= 3
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: running(marker) == [])


@pytest.mark.parametrize("sees_parent", [True, False])
def test_a_parent_that_ends_meanwhile(tmp_path: Path, *, sees_parent: bool) -> None:
    """Before the kernel was told to end the program with it."""
    request = marshal.dumps(
        {
            "argv": [sys.executable, "-I", "-c", "open('ran', 'w')"],
            "directory": str(tmp_path),
            "parent": 1 if sees_parent else None,
            "confined": False,
            "limits": {},
            "readable": [],
        }
    )
    for closed in (True, False):
        requests, answers = os.pipe(), os.pipe()
        code = f"import sys; sys.path.insert(0, {PIPELINE!r})\nfrom modelwheel.sandbox.launch import main; main()"
        ends = (requests[0], answers[1])
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", code, *map(str, ends)], pass_fds=ends
        )
        for end in ends:
            os.close(end)
        os.write(requests[1], len(request).to_bytes(8, "little") + request)
        if closed:
            os.close(requests[1])
        code_ = process.wait()
        said = os.read(answers[0], 100)
        if not closed:
            os.close(requests[1])
        os.close(answers[0])
        ran = not closed and not sees_parent
        assert (code_ == 0, said, (tmp_path / "ran").exists()) == (ran, READY if ran else b"", ran)
