"""Memory runs out while pybind11 makes objects, looks at arguments or translates exceptions: always a MemoryError."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelwheel.packaging.template import template_directory
from tests.support.commands import Modelwheel, run
from tests.support.wheels import unpack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="preloads a library by glibc's names"),
]

_FAILING = r"""
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
__thread long left = -1;  /* allocations before the one that fails; -1: none does */
static int fails(void) { return left >= 0 && left-- == 0; }
void *malloc(size_t size) { return fails() ? 0 : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? 0 : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return fails() ? 0 : __libc_realloc(old, size); }
"""

_CALLS = """
import ctypes, sys
import numpy as np
import modelwheel_runtime

left = ctypes.c_long.in_dll(ctypes.CDLL(sys.argv[1]), "left")
library = modelwheel_runtime.open_library(sys.argv[2], "model_doubling")
evaluator = modelwheel_runtime.Evaluator(library, None)
x, wrong = np.ones((3, 2), np.float32), np.ones((3, 2), np.float64)
out = (np.empty((3, 2), np.float32),)
bound = evaluator.bind((x,), None)
calls = {
    "Evaluator": lambda: modelwheel_runtime.Evaluator(library, None),
    "open_library": lambda: modelwheel_runtime.open_library(sys.argv[2], "model_doubling"),
    "bind": lambda: evaluator.bind((x,), None),
    "bound": lambda: bound(),
    "call": lambda: evaluator.call((x,)),
    "run": lambda: evaluator.run((x,)),
    "run_into": lambda: evaluator.run_into((x,), out),
    "inputs": lambda: library.inputs,
    "batch_sizes": lambda: library.batch_sizes,
    "settings": lambda: evaluator.settings,
    "state": lambda: evaluator.state(),
    "batch_rule": lambda: evaluator.batch_rule(1000),
    "wrong dtype": lambda: evaluator.call((wrong,)),
    "wrong count": lambda: evaluator.run(()),
    "wrong rows": lambda: evaluator.batch_rule("x"),
    "wrong library": lambda: modelwheel_runtime.open_library(sys.argv[2], "other"),
    "wrong level": lambda: modelwheel_runtime.Evaluator(library, "none"),
}
for name, call in calls.items():
    try:
        call()
        expected = "none"
    except (ImportError, TypeError, ValueError) as error:
        expected = type(error).__name__
    failed, unharmed, count = 0, 0, 0
    while unharmed < 20:
        raised = "none"
        left.value = count
        try:
            call()
        except BaseException as error:
            left.value = -1
            raised = type(error).__name__
        left.value = -1
        count += 1
        if raised == "MemoryError":
            failed, unharmed = failed + 1, 0
        else:
            assert raised == expected, (name, count, raised)
            unharmed += 1
    print(name, failed)
"""


def test_every_allocation_fails_in_turn(modelwheel: Modelwheel, tmp_path: Path) -> None:
    """pybind11 uses what `tp_alloc` returns without a question, and frees a value twice that it cannot register."""
    modelwheel("runtime", "--wheel", "--out", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    unpack(wheel, tmp_path / "packages")
    (tmp_path / "failing.c").write_text(_FAILING)
    failing, library = tmp_path / "failing.so", tmp_path / "libmodel_doubling.so"
    template = template_directory()
    source = template / "runtime" / "tests" / "doubling.c"
    include = f"-I{template / 'common' / 'include'}"
    shared = ("-shared", "-fPIC", "-O1")
    run("cc", *shared, "-o", failing, tmp_path / "failing.c")
    run("cc", *shared, "-DMODELWHEEL_BUILDING", include, "-o", library, source)
    done = run(
        *(sys.executable, "-c", _CALLS, failing, library),
        LD_PRELOAD=str(failing),
        PYTHONMALLOC="malloc",  # Python's own allocations fail too
        PYTHONPATH=str(tmp_path / "packages"),
    )
    failed = {name: int(count) for name, _, count in map(_split, done.out.splitlines())}
    assert len(failed) == 17
    assert min(failed["Evaluator"], failed["bind"], failed["call"], failed["wrong dtype"]) > 1


def _split(line: str) -> tuple[str, str, str]:
    return line.rpartition(" ")
