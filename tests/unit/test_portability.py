"""Which modules name things that Windows does not have, and that no others do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import modelwheel
from tests.support.portability import POSIX_MODULES, POSIX_ONLY

PACKAGE = Path(modelwheel.__file__).parent

ALLOWED = {
    # Each has another half for Windows.
    "util/trees.py": {
        "fwalk",
        "dir_fd",
        "O_NOFOLLOW",
        "O_CLOEXEC",
        "O_DIRECTORY",
    },
    "util/files.py": {"O_DIRECTORY"},
    # Windows has no such locks: what a killed process leaves stays there.
    # Windows has a directory for each user instead.
    "store/scratch.py": {"getuid"},
    "util/unfinished.py": {"fcntl", "geteuid", "O_NOFOLLOW", "O_NONBLOCK"},
    "bench/compare.py": {"getloadavg"},
    "util/processes/process.py": {"resource"},
    "util/processes/probing.py": {"fork", "WNOHANG", "SIGKILL", "resource"},
    "util/processes/groups.py": {"killpg", "SIGKILL"},
    # A note in docs/security.md says what ends there.
    "util/processes/guard.py": {"posix_spawn"},
    # Launched on POSIX systems alone; Windows has job objects.
    "sandbox/landlock.py": {"O_CLOEXEC", "O_PATH"},
    "sandbox/rlimits.py": {"getuid", "resource", "uname"},
    "sandbox/seccomp.py": {"uname"},
    "sandbox/launch.py": {"uname"},
    "workers/pool.py": {"sched_getaffinity"},
    # `workers/server/in_process.py` is the other half of both.
    "workers/server/child.py": {"setsid", "sysconf"},
    "workers/server/forking.py": {"SIGKILL", "fork", "killpg", "resource", "wait4"},
    "compiler/reference/truth/pieces.py": {"resource"},
}


def _posix_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in POSIX_ONLY.get(node.value.id, ()):
                yield node.attr
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            known = POSIX_ONLY.get(node.module or "", frozenset())
            yield from (alias.name for alias in node.names if alias.name in known)
            yield from POSIX_MODULES & {node.module}
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in POSIX_MODULES)
        elif isinstance(node, ast.keyword) and node.arg in ("dir_fd", "preexec_fn", "pass_fds"):
            yield node.arg


def test_the_scan_finds_what_it_looks_for() -> None:
    text = "import os, fcntl\nfrom os import killpg\nos.fwalk(x, dir_fd=1)\nos.walk(x)"
    assert sorted(_posix_names(ast.parse(text))) == ["dir_fd", "fcntl", "fwalk", "killpg"]


def test_only_these_modules_name_what_windows_lacks() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): set(_posix_names(ast.parse(path.read_bytes())))
        for path in PACKAGE.rglob("*.py")
    }
    assert {path: names for path, names in found.items() if names} == ALLOWED
