"""Runs `tests.support.attacker` in a sandbox, with something to attack around it.

A program of its own with nothing but the standard library and `modelwheel.sandbox`, so that it can run as
another user with another Python. It prints what each attack achieved.
"""

from __future__ import annotations

import json
import os
import pty
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from modelwheel.sandbox.bubblewrap import bubblewrap_command
from modelwheel.sandbox.choose import Sandbox, choose_sandbox
from modelwheel.sandbox.policy import Access, Limits, Policy, environment
from tests.support import attacker
from tests.support.attacker_calls import Target

PIPELINE = Path(sys.modules["modelwheel"].__path__[0]).parent
TOKEN = "MODELWHEEL_TEST_TOKEN"

LIMITS = Limits(memory_bytes=256 << 20, cpu_seconds=20, processes=1, file_bytes=1 << 20)

_VICTIM = """
import ctypes, time
ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0)  # let anybody trace it (Yama, PR_SET_PTRACER_ANY)
print(flush=True)
time.sleep(300)
"""

_SERVER = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from modelwheel.sandbox.confine import confine
from modelwheel.sandbox.kernel import protect_from_children
from modelwheel.sandbox.policy import Access, Limits
attacker = {"__name__": "attacker"}
exec(sys.argv[2], attacker)
names, target, limits = (json.loads(text) for text in sys.argv[3:])
protect_from_children()
target["parent"] = os.getpid()
job = Path("job").absolute()
job.mkdir()
reader, writer = os.pipe()
if os.fork() == 0:
    confine(Access((Path(target["input"]).parent,), job), Limits(**limits), parent=target["parent"])
    os.write(writer, json.dumps(attacker["run"](names, target)).encode())
    os._exit(0)
os.close(writer)
with open(reader) as answers:
    print(answers.read())
"""


def find(kind: str) -> Sandbox:
    """A sandbox by the name of its kind.

    Raises:
        LookupError: It does not work here.
    """
    if kind == "landlock":
        return Sandbox("landlock", "Landlock")
    found = choose_sandbox(Policy.OFF if kind == "none" else Policy.PREFERRED)
    if found.kind != kind:
        raise LookupError(f"no {kind} here")
    return found


@contextmanager
def prepared(base: Path) -> Iterator[Target]:
    """Files, sockets and processes to attack."""
    for name in ("home", "store", "library", "inputs", "scratch"):
        (base / name).mkdir()
    for name in ("home", "store"):
        (base / name / "secret").write_text("secret")
    (base / "inputs" / "model").write_text("weights")
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(base / "unix"))
        unix.listen()
        datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        datagrams.bind(str(base / "datagrams"))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        name = f"modelwheel-{os.getpid()}"
        abstract.bind("\0" + name)
        abstract.listen()
        victim = subprocess.Popen([sys.executable, "-c", _VICTIM], stdout=subprocess.PIPE)
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        assert victim.stdout is not None
        victim.stdout.readline()
        yield {
            "home": str(base / "home"),
            "store": str(base / "store"),
            "library": str(base / "library"),
            "input": str(base / "inputs" / "model"),
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
            "unix": str(base / "unix"),
            "datagrams": str(base / "datagrams"),
            "abstract": name,
            "victim": victim.pid,
            "parent": os.getpid(),
            "memory": LIMITS.memory_bytes,
            "file": LIMITS.file_bytes,
        }


def run(kind: str, base: Path, names: list[str]) -> dict[str, tuple[bool, str]]:
    """What attacks achieved, by their names.

    Args:
        kind: Of the sandbox; `plain` for none and everything inherited; with `-child`, in a child of
            a program in the sandbox that has confined itself; `bubblewrap-alone` for that without
            what the launcher adds.
        base: An empty directory.
        names: Of the attacks.
    """
    with prepared(base) as target:
        terminal, slave = pty.openpty()
        secret = os.open(base / "home" / "secret", os.O_RDONLY)
        os.set_inheritable(secret, True)  # noqa: FBT003
        options: Any = {"stdin": slave, "stdout": subprocess.PIPE}
        access = Access((base / "inputs",), base / "scratch")
        code = attacker.code()
        arguments = [json.dumps(names), json.dumps(target)]
        if kind == "plain":
            process = subprocess.Popen(
                [sys.executable, "-c", code, *arguments],
                cwd=base / "scratch", close_fds=False, start_new_session=True, **options,
            )  # fmt: skip
        elif kind == "bubblewrap-alone":
            outer = bubblewrap_command(shutil.which("bwrap") or "", access)
            argv = [sys.executable, "-I", "-c", code, *arguments]
            process = subprocess.Popen([*outer, *argv], env=environment({}), **options)
        elif kind.endswith("-child"):
            limits = json.dumps(vars(LIMITS))
            argv = [sys.executable, "-I", "-c", _SERVER, str(PIPELINE), code, *arguments, limits]
            sandbox = find(kind.removesuffix("-child"))
            process = sandbox.start(argv, access, Limits(), environment({}), **options)
        else:
            limits_ = Limits() if kind == "none" else LIMITS
            argv = [sys.executable, "-I", "-c", code, *arguments]
            process = find(kind).start(argv, access, limits_, environment({}), **options)
        out, _ = process.communicate(timeout=100)
        os.close(terminal)
        results: dict[str, tuple[bool, str]] = json.loads(out)
    return results


def main() -> None:
    """Prints the results; the arguments are those of `run`, the names in JSON."""
    kind, base, names = sys.argv[1:]
    sys.stdout.write(json.dumps(run(kind, Path(base), json.loads(names))))


if __name__ == "__main__":
    main()
