"""What the doctor finds on this machine, and on machines that lack something."""

from __future__ import annotations

import os
import platform
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from modelwheel.engine import doctor
from modelwheel.engine.doctor import Finding, diagnose
from modelwheel.errors import EnvironmentProblemError
from modelwheel.levels import LEVELS, cpu_level
from modelwheel.sandbox.choose import find_sandbox
from modelwheel.versions import CMAKE_MINIMUM, TENSORFLOW_PYTHONS, TENSORFLOW_VERSION

NEHALEM = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse "
    "sse2 ss ht syscall nx rdtscp lm pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm"
)
HASWELL = f"{NEHALEM} movbe xsave avx f16c fma abm bmi1 avx2 bmi2"
SKYLAKE_SERVER = f"{HASWELL} avx512f avx512dq avx512cd avx512bw avx512vl"


def finding(check: str) -> Finding:
    """The result of one check alone; `diagnose` makes them all."""
    found: Finding = getattr(doctor, f"_check_{check}")()
    return found


def program(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_everything_is_looked_at_without_tensorflow() -> None:
    script = """
import sys
from modelwheel.engine.doctor import diagnose
print(*(finding.name for finding in diagnose()), sep="\\n")
assert not [name for name in sys.modules if name.startswith("tensorflow")]
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "Python",
        "Python headers",
        "Python venv",
        "C++ compiler",
        "build tools",
        "CMake",
        "Ninja",
        "disk",
        "memory",
        "CPU level",
        "git",
        "TensorFlow",
        "release tools",
        "cross-building",
        "sandbox",
        "containers",
    ]


def test_only_what_is_wrong_has_a_fix() -> None:
    for found in diagnose():
        assert found.found
        assert found.ok == (found.fix is None)


def test_a_bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    compiler, git = finding("compiler"), finding("git")
    assert not compiler.ok
    assert compiler.required
    assert compiler.found == "no C++17 compiler (c++)"
    assert compiler.fix == "on Debian and Ubuntu: apt install g++"
    assert not git.ok
    assert not git.required  # needed by git sources alone


def test_a_compiler_that_cannot_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "cxx", 'test "$1" = --version || { echo "no libstdc++" >&2; exit 1; }')
    monkeypatch.setenv("CXX", str(tmp_path / "cxx"))
    assert not finding("compiler").ok
    assert "cxx cannot compile and link a small program" in finding("compiler").found


def test_cxx_may_hold_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "c++ -O1")
    assert finding("compiler").ok


@pytest.mark.parametrize(
    ("said", "ok"),
    [
        ("git version 2.25.0", True),
        ("git version 2.39.5 (Apple Git-154)", True),
        ("git version 2.45.1.windows.1", True),
        ("git version 2.9.4", False),
        ("nothing", False),
    ],
)
def test_old_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, *, ok: bool) -> None:
    program(tmp_path, "git", f"echo '{said}'")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert finding("git").ok == ok


def test_cmake_of_the_system_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "cmake", "echo cmake version 4.0")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(doctor, "_installed", lambda _: None)
    assert finding("cmake") == Finding(
        "CMake",
        ok=False,
        found=f"no Python package; {tmp_path}/cmake is not used",
        fix="install 3.25 or newer: `pip install 'cmake>=3.25'`",
        required=True,
    )


def test_cmake_of_the_environment_needs_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert finding("cmake").ok
    assert finding("ninja").ok


def test_a_python_that_tensorflow_has_no_wheels_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TENSORFLOW_PYTHONS[1] < (3, 14)
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    fix = finding("python").fix
    assert fix is not None
    assert fix.startswith(f"TensorFlow {TENSORFLOW_VERSION} has no packages for CPython 3.14: ")


def test_missing_packages_of_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelwheel.extras._is_installed", lambda name: name != "capstone")
    assert finding("build_tools").ok
    found = finding("release_tools")
    assert (found.ok, found.found) == (False, "not installed: capstone")
    assert found.fix is not None
    assert found.fix.endswith("`pip install 'modelwheel[release]'`")


def test_a_container_engine_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "docker", "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.delenv("CIBW_CONTAINER_ENGINE", raising=False)
    monkeypatch.setattr("modelwheel.release.containers.ENGINES", ("docker",))
    found = finding("containers")
    assert not found.ok
    assert found.fix is not None
    assert "Cannot connect to the Docker daemon" in found.fix


@pytest.mark.parametrize(
    ("setting", "value", "fix"),
    [
        (
            "kernel.apparmor_restrict_unprivileged_userns",
            "1",
            "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`",
        ),
        ("user.max_user_namespaces", "0", "`sudo sysctl -w user.max_user_namespaces=16384`"),
        ("user.max_user_namespaces", "96365", "in a container, allow user namespaces"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is a program of Linux")
def test_a_bubblewrap_that_the_machine_keeps_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, fix: str
) -> None:
    program(tmp_path, "bwrap", "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "sys" / setting.replace(".", "/")
    path.parent.mkdir(parents=True)
    path.write_text(f"{value}\n")
    monkeypatch.setattr(doctor, "_SETTINGS", tmp_path / "sys")
    find_sandbox.cache_clear()
    found = finding("sandbox")
    find_sandbox.cache_clear()
    assert not found.ok
    assert not found.required
    assert "(bwrap: setting up uid map: Permission denied)" in found.found
    assert found.fix is not None
    assert fix in found.fix


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is a program of Linux")
def test_a_machine_without_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    find_sandbox.cache_clear()
    found = finding("sandbox")
    find_sandbox.cache_clear()
    assert "bubblewrap is not installed" in found.found
    assert found.fix == "install bubblewrap: `sudo apt-get install bubblewrap`"


def test_another_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    information = tmp_path / "tensorflow-2.19.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.19.0\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = finding("tensorflow")
    assert (found.ok, found.found, found.required) == (False, "2.19.0", False)
    assert found.fix is not None
    assert "pip install 'modelwheel[compile]'" in found.fix


def test_a_small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELWHEEL_CACHE_DIR", str(tmp_path / "not" / "there"))
    monkeypatch.setattr(doctor, "BUILD_BYTES", 1 << 60)
    found = finding("disk")
    assert not found.ok
    assert found.found.endswith(f"free in {tmp_path}/not/there")
    assert not (tmp_path / "not").exists()


@pytest.mark.parametrize(("limit", "ok"), [("1000000000\n", False), ("max\n", True)])
def test_a_container_with_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, *, ok: bool
) -> None:
    monkeypatch.setattr(doctor, "_MEMORY_BYTES", 1_100_000_000)
    monkeypatch.setattr(doctor, "_CGROUP_LIMIT", tmp_path / "memory.max")
    (tmp_path / "memory.max").write_text(limit)
    assert finding("memory").ok == ok


def test_versions_are_those_of_the_package() -> None:
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert f'"tensorflow=={TENSORFLOW_VERSION}; ' in project
    assert f'"cmake>={CMAKE_MINIMUM}"' in project


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        ("fpu cx8 cmov mmx fxsr sse sse2 syscall", "x86-64"),
        (NEHALEM, "x86-64-v2"),
        (f"{NEHALEM} avx xsave", "x86-64-v2"),
        (HASWELL, "x86-64-v3"),
        (f"{HASWELL} avx512f avx512cd", "x86-64-v3"),
        (SKYLAKE_SERVER, "x86-64-v4"),
        (SKYLAKE_SERVER.replace("popcnt", ""), "x86-64"),  # a hypervisor that masks one flag
        ("", "x86-64"),
    ],
)
def test_levels_of_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, level: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nvmx flags\t: ept\nflags\t\t: {flags}\n\n")
    assert cpu_level(cpuinfo) == LEVELS[level]
    assert cpu_level(tmp_path / "absent") == LEVELS["x86-64"]


def test_levels_of_other_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert cpu_level() == LEVELS["armv8-a"]
    monkeypatch.setattr(platform, "machine", lambda: "s390x")
    with pytest.raises(EnvironmentProblemError, match="s390x"):
        cpu_level()
    assert not finding("cpu").ok


def test_the_c_library_sees_the_same_level() -> None:
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if not loader.exists():
        pytest.skip("needs glibc on x86-64")
    said = subprocess.run([loader, "--help"], capture_output=True, text=True, check=False).stdout
    supported = re.findall(r"(x86-64-v\d) \(supported", said)
    if "x86-64-v2" not in said:
        pytest.skip("this glibc does not tell levels")
    assert cpu_level().name == max(["x86-64", *supported])


@pytest.mark.parametrize(
    ("role", "required", "absent"),
    [
        ("author", {"TensorFlow", "git", "C++ compiler"}, {"containers", "release tools"}),
        ("release", {"release tools", "containers", "C++ compiler"}, {"memory"}),
    ],
)
def test_each_role_needs_its_own(role: doctor.Role, required: set[str], absent: set[str]) -> None:
    found = {one.name: one.required for one in doctor.for_role(diagnose(), role)}
    assert required <= {name for name, needed in found.items() if needed}
    assert not absent & set(found)


class _Refusing(BaseHTTPRequestHandler):
    status = 405

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def answering() -> Iterator[str]:
    """The address of a server that answers as an index does where uploads go."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://user:secret@127.0.0.1:{server.server_port}/legacy/"
        server.shutdown()


def test_an_index_that_answers(answering: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = doctor.check_address("uploads", answering, "upload")
    assert found.ok
    assert found.found.endswith("answers (405)")
    assert "secret" not in found.found
    monkeypatch.setattr(_Refusing, "status", 503)
    assert not doctor.check_address("uploads", answering, "upload").ok


def test_an_index_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    found = doctor.check_address("index", f"http://127.0.0.1:{port}/simple/", "url")
    assert (found.ok, found.required) == (False, True)
    assert "the host refused the connection" in found.found
    assert found.fix is not None
    assert "`url` in section [index] of modelwheel.toml" in found.fix


def test_no_index_is_no_mistake() -> None:
    found = doctor.check_address("index", None, "url")
    assert (found.ok, found.found) == (True, "`url` is not set")
