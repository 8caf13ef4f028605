"""The installed runtime over a library in plain C: what it opens, what it refuses, what it returns."""

import gc
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import modelwheel_runtime
import numpy as np
import pytest

ABI = int(modelwheel_runtime.__version__.partition(".")[0])


def rows(count, start=0.0):
    return np.arange(start, start + 2 * count, dtype=np.float32).reshape(count, 2)


# --- opening -------------------------------------------------------------------------------------


def refusal(path, module="model_doubling"):
    with pytest.raises(ImportError) as caught:
        modelwheel_runtime.open_library(path, module)
    text = str(caught.value)
    assert text.startswith(f"the library of {module}, {path!r}, ")
    assert "\n" not in text
    return text


@pytest.mark.parametrize("difference", [-1, 1])
def test_another_generation_of_the_abi(compile_library, difference):
    other = ABI + difference
    text = refusal(compile_library(f"ABI_VERSION={other}"))
    assert f"built for version {other} of modelwheel's ABI" in text
    assert f"modelwheel-runtime {modelwheel_runtime.__version__} is for version {ABI}" in text
    assert text.endswith(f'pip install "modelwheel-runtime>={other},<{other + 1}"')


def test_a_table_that_lacks_members(compile_library):
    text = refusal(compile_library("STRUCT_SIZE=100"))
    assert "offers a table of 100 bytes, but" in text
    assert "build the model again" in text


def test_a_table_with_members_of_the_future(compile_library):
    path = compile_library("STRUCT_SIZE=4096")
    assert modelwheel_runtime.open_library(path, "model_doubling").name == "doubling"


def test_the_library_of_another_model(library_path):
    text = refusal(library_path, "model_tripling")
    assert "has no function model_tripling_api" in text


def test_no_library(tmp_path):
    assert "cannot be loaded" in refusal(str(tmp_path / "absent.so"))
    (tmp_path / "text.so").write_text("no library\n")
    text = refusal(str(tmp_path / "text.so"))
    assert "cannot be loaded" in text
    assert text.endswith("install the model again")


@pytest.mark.parametrize("name", ["with space", "mit Öffnung", "library's"])
def test_any_directory(library_path, tmp_path, name):
    (tmp_path / name).mkdir()
    path = str(tmp_path / name / Path(library_path).name)
    shutil.copyfile(library_path, path)
    assert modelwheel_runtime.open_library(path, "model_doubling").version == "1.2"


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode here")
def test_a_directory_whose_name_is_no_unicode(library_path, tmp_path):
    directory = tmp_path / "b\udcffd"
    directory.mkdir()
    path = str(directory / Path(library_path).name)
    assert "cannot be loaded" in refusal(path)
    shutil.copyfile(library_path, path)
    assert modelwheel_runtime.open_library(path, "model_doubling").version == "1.2"


def test_wrong_types(library_path):
    with pytest.raises(TypeError):
        modelwheel_runtime.open_library(library_path.encode(), "model_doubling")
    with pytest.raises(TypeError):
        modelwheel_runtime.Library()


# --- the library ---------------------------------------------------------------------------------


def test_what_a_library_says_of_itself(library):
    assert (library.name, library.version, library.about) == ("doubling", "1.2", "{}")
    assert library.inputs == (("x/given", np.dtype(np.float32), (None, 2), 1, 0, "x_given"),)
    assert library.outputs == (("y", np.dtype(np.float32), (None, 2), 1, 0, "y"),)
    assert library.batch_sizes == (1, 4)
    assert library.batched is True
    assert library.no_emulation_reason is None
    assert library.levels == ("plain",)


def test_several_libraries_do_not_share_symbols(compile_library, library_path):
    """Each has a function of the same name."""
    other = compile_library("STRUCT_SIZE=4096", name="other")
    for path in (library_path, other):
        library = modelwheel_runtime.open_library(path, "model_doubling")
        (output,) = modelwheel_runtime.Evaluator(library, None).run((rows(1, 1.0),))
        assert output.tolist() == [[2.0, 4.0]]


# --- evaluation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_evaluation(evaluator, count):
    given = rows(count)
    (output,) = evaluator.run((given,))
    assert output.dtype == np.float32
    np.testing.assert_array_equal(output, 2 * given)
    assert output.ctypes.data % 64 == 0


def test_a_call_has_the_result_of_a_model(evaluator):
    given = rows(3)
    output = evaluator.call((given,))
    np.testing.assert_array_equal(output, 2 * given)
    assert output.flags.c_contiguous
    assert output.flags.writeable
    for other in ((given.tolist(),), (), (given, given), [given], None):
        assert evaluator.call(other) is NotImplemented
    with pytest.raises(TypeError, match="must be float32, got float64"):
        evaluator.call((given.astype(float),))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_results_in_an_array_of_the_caller(evaluator, count):
    given, out = rows(count), np.zeros((count, 2), np.float32)
    assert evaluator.run_into((given,), (out,)) is None
    np.testing.assert_array_equal(out, 2 * given)


def test_arrays_that_results_cannot_be_written_to(evaluator):
    memory = np.zeros(20, np.float32)
    given = memory[4:10].reshape(3, 2)
    read_only = np.broadcast_to(np.float32(0), (3, 2)).copy()
    read_only.flags.writeable = False
    for out, error, words in (
        ([[0.0]], TypeError, "must be a NumPy array, got list"),
        (np.zeros((3, 2)), TypeError, "must be float32, got float64"),
        (np.zeros((3, 2), ">f4"), TypeError, "must be float32, got >f4"),
        (np.ma.zeros((3, 2), np.float32), TypeError, "is a masked array"),
        (
            np.zeros((2, 2), np.float32),
            ValueError,
            r"must have the shape \(batch, 2\) with 3 along axis 0, got \(2, 2\)",
        ),
        (np.zeros((3, 4), np.float32)[:, ::2], ValueError, "must be C-contiguous"),
        (read_only, ValueError, "must be writable"),
        (given, ValueError, "overlaps that of input 'x/given'"),
        (memory[:6].reshape(3, 2), ValueError, "overlaps that of input"),
        (memory[9:15].reshape(3, 2), ValueError, "overlaps that of input"),
    ):
        with pytest.raises(error, match=f"doubling: out: the array for 'y' {words}"):
            evaluator.run_into((given,), (out,))
    for out in (memory[10:16], memory[14:20]):  # just behind it
        evaluator.run_into((given,), (out.reshape(3, 2),))
    with pytest.raises(TypeError, match="expected 1 output, got 0"):
        evaluator.run_into((given,), ())
    with pytest.raises(TypeError, match=r"run_into\(\) takes a tuple"):
        evaluator.run_into((given,), given)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_bound_arrays(evaluator, count):
    given, out = rows(count), np.zeros((count, 2), np.float32)
    into_out, into_new = evaluator.bind((given,), (out,)), evaluator.bind((given,), None)
    for start in (0.0, 5.0):
        given[...] = rows(count, start)
        assert into_out() is out
        np.testing.assert_array_equal(out, 2 * given)
        np.testing.assert_array_equal(into_new(), 2 * given)
    assert into_new() is into_new()
    assert into_new().ctypes.data % 64 == 0


def test_arrays_that_cannot_be_bound(evaluator):
    given = rows(3)
    for inputs, out, error, words in (
        (
            (given.tolist(),),
            None,
            TypeError,
            "must be a NumPy array, which each call reads, got list",
        ),
        ((given[:, ::-1],), None, ValueError, "is not C-contiguous"),
        ((given.astype(float),), None, TypeError, "must be float32, got float64"),
        ((given,), (given,), ValueError, "overlaps that of input 'x/given'"),
        ((), None, TypeError, "expected 1 input, got 0"),
        ((given,), given, TypeError, r"bind\(\) takes a tuple"),
    ):
        with pytest.raises(error, match=words):
            evaluator.bind(inputs, out)
    with pytest.raises(TypeError, match=r"bind\(\) takes 2 arguments, got 1"):
        evaluator.bind((given,))


@pytest.mark.parametrize("target", [False, True])
def test_a_bound_array_that_was_resized(evaluator, target):
    given, out = rows(3).copy(), np.zeros((3, 2), np.float32)
    call = evaluator.bind((given,), (out,))
    (out if target else given).resize((1, 2), refcheck=False)
    with pytest.raises(
        ValueError, match=f"bound to {'output' if target else 'input'} .* bind it again"
    ):
        call()


def test_any_memory_layout(evaluator):
    wide = np.arange(12, dtype=np.float32).reshape(3, 4)
    (output,) = evaluator.run((wide[:, ::2],))
    np.testing.assert_array_equal(output, 2 * wide[:, ::2])


def test_values_of_bfloat16_are_passed_as_their_bits(compile_library):
    """Numbers that are converted to uint16 would be other values."""
    library = modelwheel_runtime.open_library(compile_library("BFLOAT16"), "model_doubling")
    with pytest.raises(TypeError) as caught:
        modelwheel_runtime.Evaluator(library, None).run((rows(2),))
    assert str(caught.value) == (
        "doubling: input 'x/given' must be uint16 (the bits of bfloat16), got float32; convert it "
        "with .astype(ml_dtypes.bfloat16).view('uint16')"
    )


def test_inputs_that_do_not_fit(evaluator):
    for wrong in (rows(2).astype(np.float64), rows(2).astype(">f4")):
        with pytest.raises(TypeError, match="doubling: input 'x/given' must be float32, got"):
            evaluator.run((wrong,))
    with pytest.raises(ValueError, match=r"must have the shape \(batch, 2\), got \(2, 3\)"):
        evaluator.run((np.zeros((2, 3), np.float32),))
    with pytest.raises(TypeError, match="expected 1 input, got 2"):
        evaluator.run((rows(2), rows(2)))
    with pytest.raises(TypeError, match="must be a NumPy array"):
        evaluator.run(([[1.0, 2.0]],))


def test_a_kernel_that_fails(evaluator):
    with pytest.raises(RuntimeError, match="a value is negative\ufffd"):
        evaluator.run((-rows(2),))
    (output,) = evaluator.run((rows(1, 1.0),))
    assert output.tolist() == [[2.0, 4.0]]


def test_levels(library, evaluator):
    assert evaluator.level == "plain"
    assert modelwheel_runtime.Evaluator(library, "plain").level == "plain"
    with pytest.raises(ValueError, match="there is no such level"):
        modelwheel_runtime.Evaluator(library, "fancy")


def test_rules(evaluator):
    assert evaluator.batch_rule(5) == "5:4,1"
    evaluator.set_batch_rule("5:4,1")
    evaluator.set_batch_strategy("cheapest")
    for refused in (
        lambda: evaluator.batch_rule(6),
        lambda: evaluator.set_batch_rule("nonsense"),
        lambda: evaluator.set_batch_strategy("dearest"),
    ):
        with pytest.raises(ValueError, match=r"five rows|nonsense|dearest"):
            refused()


def test_one_evaluator_serves_many_threads(evaluator):
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda i: evaluator.run((rows(3, float(i)),))[0], range(200)))
    for i, output in enumerate(results):
        np.testing.assert_array_equal(output, 2 * rows(3, float(i)))


# --- threads ---------------------------------------------------------------------------------------


@pytest.fixture
def threaded(library):
    return modelwheel_runtime.Evaluator(library, None, 3)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 1000])
def test_threads_share_the_rows(threaded, count):
    (output,) = threaded.run((rows(count),))
    np.testing.assert_array_equal(output, 2 * rows(count))


def test_threads_that_share_serve_many(threaded):
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda i: threaded.run((rows(7, float(i)),))[0], range(200)))
    for i, output in enumerate(results):
        np.testing.assert_array_equal(output, 2 * rows(7, float(i)))


@pytest.mark.parametrize("wrong", [0, 5, 8])
def test_one_part_fails(threaded, wrong):
    given = rows(9)
    given[wrong] = -1
    with pytest.raises(RuntimeError, match="a value is negative\ufffd"):
        threaded.run((given,))
    test_threads_share_the_rows(threaded, 9)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_the_child_of_a_fork_has_threads_of_its_own(threaded):
    test_threads_share_the_rows(threaded, 9)
    child = os.fork()
    if child == 0:
        (output,) = threaded.run((rows(9),))
        os._exit(0 if np.array_equal(output, 2 * rows(9)) else 1)
    assert os.waitpid(child, 0) == (child, 0)


@pytest.mark.parametrize("threads", [-1, 0, 4097])
def test_numbers_of_threads(library, threads):
    with pytest.raises(
        ValueError, match=f"doubling: threads must be from 1 to 4096, got {threads}"
    ):
        modelwheel_runtime.Evaluator(library, None, threads)


def test_a_library_older_than_threads(compile_library):
    path = compile_library("STRUCT_SIZE=offsetof(modelwheel_api,rows_per_thread)")
    library = modelwheel_runtime.open_library(path, "model_doubling")
    (output,) = modelwheel_runtime.Evaluator(library, None, 1).run((rows(2),))
    np.testing.assert_array_equal(output, 2 * rows(2))
    with pytest.raises(
        ValueError, match=r"threads split the rows .* it was compiled by a modelwheel"
    ):
        modelwheel_runtime.Evaluator(library, None, 2)


def test_results_outlive_what_made_them(library_path):
    library = modelwheel_runtime.open_library(library_path, "model_doubling")
    (output,) = modelwheel_runtime.Evaluator(library, None).run((rows(2, 1.0),))
    del library
    gc.collect()
    assert output.tolist() == [[2.0, 4.0], [6.0, 8.0]]
