"""Callers that do what nobody should: the answer is an exception, never a crash, a hang or another model's result."""

import copy
import copyreg
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

START = """\
import sys, threading, time
import numpy as np
import {module} as package
from {module}._reference import make_inputs, to_call
model = package.Model()
made = make_inputs({rows})
inputs = [to_call(spec, made[spec.name]) for spec in model.inputs]
"""


def run_python(package, script):
    """Runs a script after START in another process, which must end by itself."""
    rows = package.Model.batch_sizes[0]
    text = START.format(module=package.__name__, rows=rows) + script
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False
    )


def as_bytes(result):
    arrays = result.values() if isinstance(result, dict) else [result]
    return [array.tobytes() for array in arrays]


# --- the end of the interpreter -------------------------------------------------------------------


@pytest.mark.usefixtures("stateless")
def test_the_interpreter_ends_while_daemon_threads_are_in_calls(package):
    """CPython up to 3.13 ends such threads by an exception, which aborted the process in C++."""
    script = (
        "def call():\n"
        "    while True: model(*inputs)\n"
        "for _ in range(4): threading.Thread(target=call, daemon=True).start()\n"
        "time.sleep(0.05)\n"
    )
    runs = int(os.environ.get("MODELWHEEL_TEST_RUNS", "5"))
    for done in (run_python(package, script) for _ in range(runs)):
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("stateless")
def test_calls_while_the_interpreter_ends(package):
    script = (
        "import atexit\n"
        "class Last:\n"
        "    def __del__(self): model(*inputs)\n"
        "sys.last = Last()\n"
        "atexit.register(lambda: print(model(*inputs) is not None))\n"
    )
    done = run_python(package, script)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


# --- processes and interpreters -------------------------------------------------------------------


@pytest.mark.usefixtures("stateless")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forks_while_threads_call(package):
    """The child has none of the threads, and perhaps what they had locked."""
    script = (
        "import os, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "def call():\n"
        "    while True: model(*inputs)\n"
        "for _ in range(4): threading.Thread(target=call, daemon=True).start()\n"
        "for _ in range(20):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        for _ in range(3): model(*inputs)\n"
        "        os._exit(7)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
    )
    done = run_python(package, script)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("isolated", [False, True])
def test_subinterpreters_work_or_refuse(package, isolated):
    """NumPy refuses some itself. Before CPython 3.12 importing a model would wait for ever."""
    if sys.version_info >= (3, 13):
        create = (
            f"import _interpreters as i; new = i.create({'isolated' if isolated else 'legacy'!r})"
        )
    else:
        create = f"import _xxsubinterpreters as i; new = i.create(isolated={isolated})"
    script = (
        f"import sys, warnings; warnings.simplefilter('ignore')\n"
        f"try: import {package.__name__} as package; print('works', package.Model().level)\n"
        f"except ImportError as error: print('refused', error)\n"
    )
    whole = f"{create}\ni.run_string(new, {script!r}); i.destroy(new)"
    done = subprocess.run(
        [sys.executable, "-c", whole], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    if sys.version_info < (3, 12):
        assert "refused compiled models cannot be imported in a sub-interpreter" in done.stdout
    else:
        assert done.stdout.startswith(("works", "refused"))


def call_model(model, arrays):
    return as_bytes(model(*arrays))


@pytest.mark.usefixtures("stateless")
def test_a_process_that_is_spawned_gets_the_model(model, arrays):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(call_model, (model, arrays)) == as_bytes(model(*arrays))


# --- objects that were not made as they should ----------------------------------------------------


@pytest.mark.usefixtures("stateless")
def test_pickles_and_copies_have_the_same_settings(package, model, arrays, library):
    if library.no_emulation_reason is None and library.batched:
        largest = model.batch_sizes[-1]
        model.set_batch_rule(f"{2 * largest}:{largest},{largest}")
        model.set_batch_strategy("smallest")
    model.note = "mine"
    for made in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert made is not model
        assert (made.level, made.note) == (model.level, "mine")
        assert made._evaluator.settings == model._evaluator.settings
        assert as_bytes(made(*arrays)) == as_bytes(model(*arrays))
    forced = package.Model(model.level)
    assert pickle.loads(pickle.dumps(forced))._requested_level == model.level


def test_a_pickle_of_another_version_is_refused(package, model):
    state = {**model.__getstate__(), "_version": "0.0.0"}
    with pytest.raises(ValueError, match=r"pickle is of version 0\.0\.0, but .* is installed"):
        package.Model.__new__(package.Model).__setstate__(state)


def test_objects_that_no_constructor_made(package, model, library):
    evaluator = type(model._evaluator)
    base = evaluator.__mro__[1]
    for kind in (evaluator, type(library)):
        for make in (kind.__new__, object.__new__, base.__new__):
            with pytest.raises(TypeError):
                make(kind)
        with pytest.raises(TypeError):
            copyreg._reconstructor(kind, object, None)
        with pytest.raises(TypeError):
            type(kind)("Derived", (kind,), {})
    with pytest.raises(TypeError):
        pickle.dumps(model._evaluator)
    with pytest.raises(TypeError, match="__class__"):
        model._evaluator.__class__ = type(library)
    with pytest.raises(TypeError):
        evaluator.run(library, ())
    with pytest.raises(AttributeError):
        package.Model.__new__(package.Model).level  # noqa: B018


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, TypeError),
        (5, TypeError),
        (b"1:1", TypeError),
        ("1:1\0", ValueError),
        ("\ud800", ValueError),
        ("a" + "é" * 60, ValueError),
        ("é" * 400, ValueError),
        ("\x1b[31m\n::error::", ValueError),
        ("1" * (1 << 25), ValueError),
    ],
    ids=repr,
)
def test_names_and_rules_of_any_kind(package, model, text, error):
    """Every message is one line, whatever it quotes."""
    calls = [model.set_batch_rule, model.set_batch_strategy]
    for call in calls if text is None else [*calls, package.Model]:
        with pytest.raises(error) as caught:
            call(text)
        message = str(caught.value)
        assert message.isprintable()
        assert len(message) < 400


@pytest.mark.parametrize("rows", [None, 1.5, "1", -1, -(2**70), 2**62, 2**70], ids=repr)
def test_rules_for_rows_of_any_kind(model, rows):
    start = time.monotonic()
    with pytest.raises((TypeError, ValueError), match=r"rows|one input at a time"):
        model.batch_rule(rows)
    assert time.monotonic() - start < 5


def test_masked_arrays_are_refused(model, arrays):
    if not arrays[0].ndim:
        pytest.skip("the first input is a number")
    masked = np.ma.masked_array(arrays[0], mask=np.ones(arrays[0].shape, bool))
    for given in (masked, list(masked)):
        with pytest.raises(TypeError, match=r"masked array.* pass array\.filled"):
            model(given, *arrays[1:])


def test_subclasses_of_arrays_are_read_by_their_memory(model, arrays):
    """What a subclass says of itself is not asked: it may be wrong."""

    class Liar(np.ndarray):
        shape = (1,)

        def copy(self, *_):
            return np.zeros(1, np.int8)

    strided = [np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array for array in arrays]
    assert as_bytes(model(*[array.view(Liar) for array in strided])) == as_bytes(model(*arrays))


@pytest.mark.usefixtures("stateless")
def test_settings_change_while_threads_call(model, arrays, library):
    if not library.batched or library.no_emulation_reason is not None:
        pytest.skip("the model runs its compiled batch sizes alone")
    expected, ended, size = as_bytes(model(*arrays)), threading.Event(), model.batch_sizes[0]
    results = []

    def call():
        while not ended.is_set():
            results.append(as_bytes(model(*arrays)) == expected)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for rows in range(100, 300):
        repeats = -(-rows // size)
        model.set_batch_rule(f"{rows}:" + ",".join([str(size)] * repeats))
    ended.set()
    for thread in threads:
        thread.join()
    assert results
    assert all(results)
