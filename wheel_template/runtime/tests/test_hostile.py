"""Callers that do what nobody should: the answer is an exception, never a crash or a hang."""

import copyreg
import os
import pickle
import signal
import subprocess
import sys
import threading

import modelwheel_runtime
import numpy as np
import pytest

ROWS = np.ones((3, 2), np.float32)


def run_python(script, *arguments):
    """Runs a script in another process, which must end by itself."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


OPEN = """\
import sys, threading, time
import numpy as np, modelwheel_runtime
library = modelwheel_runtime.open_library(sys.argv[1], "model_doubling")
evaluator = modelwheel_runtime.Evaluator(library, None)
"""


@pytest.mark.parametrize("columns", [2, 4], ids=["in place", "copied by NumPy"])
def test_the_interpreter_ends_while_daemon_threads_are_in_calls(library_path, columns):
    script = (
        f"{OPEN}x = np.ones((20000, {columns}), np.float32)[:, ::{columns // 2}]\n"
        "def call():\n"
        "    while True: evaluator.run((x,))\n"
        "for _ in range(4): threading.Thread(target=call, daemon=True).start()\n"
        "time.sleep(0.05)\n"
    )
    runs = int(os.environ.get("MODELWHEEL_TEST_RUNS", "5"))
    for done in (run_python(script, library_path) for _ in range(runs)):
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself a signal")
@pytest.mark.parametrize("threads", [1, 3])
def test_a_long_call_is_interrupted(library, threads):
    """The kernel of the third row never ends by itself."""
    evaluator = modelwheel_runtime.Evaluator(library, None, threads)
    # A shell ignores the signal in what it runs in the background, and Python then leaves it so.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    endless = np.array([[1.0, 1.0], [1.0, 1.0], [2e9, 1.0]], np.float32)
    sent = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    sent.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            evaluator.run((endless,))
        sent.join()
    finally:
        signal.signal(signal.SIGINT, usual)
    (output,) = evaluator.run((ROWS,))
    assert output.tolist() == (2 * ROWS).tolist()


def test_other_threads_run_during_a_long_call(library_path):
    script = (
        f"{OPEN}endless = np.full((1, 2), 2e9, np.float32)\n"
        "call = threading.Thread(target=evaluator.run, args=((endless,),), daemon=True)\n"
        "call.start()\n"
        "for _ in range(5): evaluator.run((endless * 0,))\n"
        "print(call.is_alive())\n"
    )
    done = run_python(script, library_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_objects_that_no_constructor_made(library, evaluator):
    kinds = (type(evaluator), type(library))
    base = kinds[0].__mro__[1]
    for kind in kinds:
        for make in (kind.__new__, object.__new__, base.__new__):
            with pytest.raises(TypeError):
                make(kind)
        with pytest.raises(TypeError):
            copyreg._reconstructor(kind, object, None)
    for value in (evaluator, library):
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(value)
    with pytest.raises(TypeError, match="__class__"):
        library.__class__ = type(evaluator)
    with pytest.raises(TypeError, match="immutable"):
        type(evaluator).run = None
    evaluator.__init__(1, level=2)
    assert evaluator.level == "plain"


@pytest.mark.parametrize(
    "arguments", [(), (None,), (None, None), ("library", None), (1, 2, 3)], ids=repr
)
def test_evaluators_of_anything(arguments):
    with pytest.raises(TypeError, match=r"Evaluator\(\)|takes a Library"):
        modelwheel_runtime.Evaluator(*arguments)


def test_levels_of_any_kind(library):
    for level, error in ((3, TypeError), ("plain\0", ValueError), ("\ud800", ValueError)):
        with pytest.raises(error, match="doubling: the CPU level"):
            modelwheel_runtime.Evaluator(library, level)


def test_calls_with_anything(evaluator):
    for arrays in (None, 3, [ROWS], {"x": ROWS}):
        with pytest.raises(TypeError, match=r"run\(\) takes a tuple of NumPy arrays"):
            evaluator.run(arrays)
    for array in (None, 1, "x", [1.0], memoryview(b"12345678")):
        with pytest.raises(TypeError, match="must be a NumPy array, got"):
            evaluator.run((array,))
    with pytest.raises(TypeError, match="is a masked array"):
        evaluator.run((np.ma.masked_array(ROWS, ROWS > 1),))
    names = np.dtype([("\ud800" + "é" * 500, "f4")])
    with pytest.raises(TypeError, match=r"must be float32, got \[\('\\ud800é+\.\.\.; convert it"):
        evaluator.run((np.zeros((1, 2), names),))


def test_more_memory_than_there_is(evaluator):
    with pytest.raises(MemoryError):
        evaluator.run((np.broadcast_to(ROWS[:1], (2**55, 2)),))


def test_a_rule_of_any_length(evaluator):
    """The library says that it has 2**60 characters and more."""
    with pytest.raises(ValueError, match="is longer than"):
        evaluator.batch_rule(2**60)


def test_settings(evaluator):
    assert evaluator.settings == (None, ())
    evaluator.set_batch_rule("5:4,1")
    evaluator.set_batch_strategy("cheapest")
    assert evaluator.settings == ("cheapest", ("5:4,1",))
