"""The Python interface of the installed model: what it takes, what it refuses, its results."""

import importlib
import inspect
import pickle
import re
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest


def as_dict(package, result):
    """Outputs by name, whatever the call returned."""
    return {package.Model.outputs[0].name: result} if isinstance(result, np.ndarray) else result


def assert_same(package, result, expected):
    result, expected = as_dict(package, result), as_dict(package, expected)
    assert list(result) == list(expected)
    for name, array in expected.items():
        assert result[name].dtype == array.dtype
        assert result[name].tobytes() == array.tobytes()
        assert result[name].shape == array.shape


@pytest.fixture
def growing(package):
    """Positions of the inputs that grow with the batch."""
    found = [i for i, spec in enumerate(package.Model.inputs) if spec.leading_per_row]
    if not found:
        pytest.skip("the model has fixed shapes")
    return found


@pytest.fixture
def any_rows(library, growing):
    if library.no_emulation_reason is not None:
        pytest.skip("the model runs its compiled batch sizes alone")
    return growing


# --- right ---------------------------------------------------------------------------------------


def test_selftest_passes(package, run_python):
    done = run_python("-m", package.__name__, "selftest", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == "passed"


@pytest.mark.usefixtures("stateless")
@pytest.mark.parametrize("wrong", [False, True])
def test_selftest_judges_a_reference(package, model, samples, tmp_path, wrong, run_python):
    reference = importlib.import_module(f"{package.__name__}._reference")
    arrays = {f"in/{name}": array for name, array in samples[-1].inputs.items()}
    for sample in samples:
        for name, array in reference.evaluate(model, sample.inputs).items():
            arrays[f"out/{sample.case}/{name}"] = array
    if wrong:
        key = next(key for key, array in arrays.items() if key.startswith("out/") and array.size)
        worse = ~arrays[key] if arrays[key].dtype == bool else arrays[key] * 2 + 1
        arrays[key] = worse.astype(arrays[key].dtype)
    np.savez(tmp_path / "reference.npz", **arrays)
    done = run_python(
        "-m", package.__name__, "selftest", "--reference", str(tmp_path / "reference.npz")
    )
    assert done.returncode == (1 if wrong else 0), done.stderr
    assert ("FAILED" in done.stdout) == wrong


def test_results_are_arrays_of_the_declared_type(package, model, arrays, sample):
    result = as_dict(package, model(*arrays))
    assert list(result) == [spec.name for spec in model.outputs]
    for spec in model.outputs:
        assert result[spec.name].dtype == spec.dtype
        moved = (
            np.moveaxis(result[spec.name], spec.batch_axis or 0, 0)
            if spec.shape
            else result[spec.name]
        )
        assert moved.shape == sample.outputs[spec.name].shape


def test_positions_names_and_mappings_agree(package, model, arrays, sample):
    expected = model(*arrays)
    assert_same(package, model(**sample.arguments), expected)
    assert_same(package, model.predict(sample.arguments), expected)


# --- memory --------------------------------------------------------------------------------------


def offset_copy(array):
    """The same array at an address that is a multiple of nothing."""
    memory = np.empty(array.nbytes + 1, np.uint8)
    view = memory[1:].view(array.dtype).reshape(array.shape) if array.nbytes else array.copy()
    view[...] = array
    return view


@pytest.mark.parametrize(
    "layout",
    [
        offset_copy,
        lambda array: np.array(array, order="F"),
        lambda array: np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array,
        lambda array: np.repeat(array, 3, axis=0)[::3] if array.ndim else array,
        lambda array: np.flip(np.flip(array).copy()),
        lambda array: np.lib.stride_tricks.as_strided(array, writeable=False),
    ],
    ids=["odd-address", "fortran", "strided", "rows-apart", "backwards", "read-only"],
)
def test_any_memory_layout_gives_the_same(package, model, arrays, layout):
    assert_same(package, model(*map(layout, arrays)), model(*arrays))


def test_strided_arrays_are_not_copied_as_a_whole(package, model, any_rows, arrays):
    """Rows are copied to where compiled code reads them, a batch at a time."""
    index = any_rows[0]
    rows = -(-(1 << 22) // max(arrays[index].nbytes, 1))
    many = [
        np.repeat(array, rows, axis=spec.batch_axis) if spec.leading_per_row else array
        for array, spec in zip(arrays, package.Model.inputs, strict=True)
    ]
    apart = list(many)
    apart[index] = np.repeat(many[index], 2, axis=-1)[..., ::2]

    def peak(given):
        tracemalloc.start()
        try:
            model(*given)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(apart) - peak(many) < many[index].nbytes // 2


def test_results_cannot_be_written_over_a_strided_input(package, model, any_rows, arrays):
    index = any_rows[0]
    (name, *others) = [spec.name for spec in package.Model.outputs]
    expected = as_dict(package, model(*arrays))[name]
    if others or expected.dtype != arrays[index].dtype or not arrays[index].size:
        pytest.skip("the output has no memory that could be the input's")
    memory = np.empty(2 * max(arrays[index].size, expected.size), expected.dtype)
    given = list(arrays)
    given[index] = memory[: 2 * arrays[index].size : 2].reshape(arrays[index].shape)
    given[index][...] = arrays[index]
    if np.shares_memory(given[index], memory):
        with pytest.raises(ValueError, match="overlaps that of input"):
            model(*given, out=memory[: expected.size].reshape(expected.shape))


def test_signatures_have_the_names_of_inputs(package):
    names = list(inspect.signature(package.Model()).parameters)
    assert [name for name in names if name != "out"] == [
        fields[-1] for fields in importlib.import_module(f"{package.__name__}._core").library.inputs
    ]


def test_about_and_arrays_of_files(package, model, arrays, tmp_path, run_python):
    about = package.about()
    assert about["model"]["version"] == package.__version__
    assert [one["name"] for one in about["outputs"]] == [spec.name for spec in model.outputs]
    named = dict(zip([spec.name for spec in model.inputs], arrays, strict=True))
    with (tmp_path / "in.npz").open("wb") as file:
        importlib.import_module(f"{package.__name__}._run")._save(".npz", file, named)
    command = ("-m", package.__name__, "run", str(tmp_path / "in.npz"), str(tmp_path / "out.npz"))
    done = run_python(*command)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as found:
        assert_same(package, dict(found), as_dict(package, model(*arrays)))


def test_values_are_checked_if_asked_for(package, arrays):
    checked = package.Model(check_values=True)
    for index, spec in enumerate(package.Model.inputs):
        beyond = [np.nan] if spec.dtype.kind == "f" else []
        beyond += [high for _, high, columns in spec.valid if columns is None]
        for value in beyond:
            wrong = [array.copy() for array in arrays]
            if not wrong[index].size or value > np.finfo(np.float32).max:
                continue
            if spec.dtype.kind in "iu" and value > np.iinfo(spec.dtype).max:
                continue
            wrong[index][...] = value
            with pytest.raises(ValueError, match=re.escape(repr(spec.name))):
                checked(*wrong)


def test_inputs_are_not_written(model, arrays):
    before = [array.copy() for array in arrays]
    model(*arrays)
    for array, copy in zip(arrays, before, strict=True):
        assert array.tobytes() == copy.tobytes()


def test_results_are_new_aligned_arrays(package, model, arrays):
    first = as_dict(package, model(*arrays))
    kept = {name: array.copy() for name, array in first.items()}
    second = as_dict(package, model(*[np.zeros_like(array) for array in arrays]))
    for name, array in first.items():
        assert array.tobytes() == kept[name].tobytes()
        assert not np.shares_memory(array, second[name])
        assert array.ctypes.data % 64 == 0
        assert array.flags.writeable


class Exported:
    """An array of another library, which NumPy reads by DLPack alone."""

    def __init__(self, array, device=1):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device, 0


def test_arrays_of_other_libraries(package, model, arrays):
    own = [array.copy() for array in arrays]  # before NumPy 2.1, DLPack has no read-only arrays
    assert_same(package, model(*map(Exported, own)), model(*arrays))
    with pytest.raises(ValueError, match=r"on another device, of type 2 in DLPack; copy it"):
        model(Exported(own[0], device=2), *own[1:])
    wrong = np.zeros(own[0].shape, "f8" if own[0].dtype != np.float64 else "f4")
    with pytest.raises(TypeError, match=r"must be .*, got float"):
        model(Exported(wrong), *own[1:])


def as_out(package, arrays):
    """Arrays by name in the form that a call takes."""
    return next(iter(arrays.values())) if len(package.Model.outputs) == 1 else arrays


@pytest.mark.parametrize("make", [np.zeros_like, lambda array: offset_copy(np.zeros_like(array))])
def test_results_are_written_to_out(package, model, arrays, sample, make):
    expected = model(*arrays)
    out = as_out(package, {n: make(a) for n, a in as_dict(package, expected).items()})
    model.reset()
    assert model.predict(sample.arguments, out=out) is out
    assert_same(package, out, expected)
    if any(spec.name == "out" for spec in model.inputs):
        return
    out = as_out(package, {n: make(a) for n, a in as_dict(package, expected).items()})
    assert model(*arrays, out=out) is out
    assert_same(package, out, expected)


def test_out_that_does_not_fit_is_refused(package, model, arrays, sample):
    expected = as_dict(package, model(*arrays))
    for name, array in expected.items():
        frozen = array.copy()
        frozen.flags.writeable = False
        for wrong, error, words in (
            (array.tolist(), TypeError, "must be a NumPy array, got"),
            (np.empty(array.shape, "S9"), TypeError, r"must be \w+, got \|S9"),
            (array[None], ValueError, "must have the shape"),
            (frozen, ValueError, "must be writable"),
        ):
            with pytest.raises(error, match=f"out: the array for .* {words}"):
                model.predict(sample.arguments, out=as_out(package, {**expected, name: wrong}))
    if len(expected) > 1:
        with pytest.raises(TypeError, match="out lacks"):
            model.predict(sample.arguments, out=dict(list(expected.items())[1:]))
        with pytest.raises(TypeError, match="out is a dict of arrays by name, got ndarray"):
            model.predict(sample.arguments, out=array)


# --- plain Python values -------------------------------------------------------------------------


def test_lists_and_numbers_are_converted(package, model, arrays):
    # A list without elements has lost the axes behind.
    values = [array.tolist() if array.size else array for array in arrays]
    assert_same(package, model(*values), model(*arrays))


def test_values_of_another_kind_are_refused(model, arrays):
    wrong = np.full(arrays[0].shape, "a").tolist()
    with pytest.raises(TypeError, match=r"expected \w+ values, got str"):
        model(wrong, *arrays[1:])


# --- refused -------------------------------------------------------------------------------------


def test_another_type_is_refused_with_both_named(model, arrays):
    given = "float64" if arrays[0].dtype != np.float64 else "float32"
    with pytest.raises(
        TypeError, match=rf"must be {model.inputs[0].dtype}( \(.*\))?, got {given}; convert"
    ):
        model(arrays[0].astype(given), *arrays[1:])


def test_foreign_byte_order_is_refused(model, arrays):
    if arrays[0].dtype.itemsize == 1:
        pytest.skip("single bytes have no order")
    with pytest.raises(TypeError, match=r"must be .*, got [<>]"):
        model(arrays[0].astype(arrays[0].dtype.newbyteorder()), *arrays[1:])


def test_another_shape_is_refused_with_both_named(model, arrays):
    with pytest.raises(ValueError, match=r"must have the shape \(.*\), got \(.*\)"):
        model(arrays[0][np.newaxis], *arrays[1:])


def test_different_numbers_of_rows_are_refused(model, arrays, growing):
    if len(growing) < 2:
        pytest.skip("one input grows with the batch")
    last = arrays[growing[-1]]
    arrays = [*arrays]
    arrays[growing[-1]] = np.concatenate([last, last], model.inputs[growing[-1]].batch_axis)
    with pytest.raises(ValueError, match="the same number of rows"):
        model(*arrays)


def test_names_are_checked(model, arrays, sample):
    with pytest.raises(TypeError, match="has no input 'no such input'"):
        model.predict({**sample.arguments, "no such input": arrays[0]})
    with pytest.raises(TypeError, match="is missing input"):
        model.predict({})
    with pytest.raises(TypeError, match="twice"):
        model(*arrays, **{model.inputs[0].name: arrays[0]})
    with pytest.raises(TypeError, match=r"takes \d+ inputs? \(.*\), got"):
        model(*arrays, arrays[0])


def test_arrays_in_place_of_a_mapping(package, model, arrays):
    """As `predict` of Keras takes them; what is neither is refused with advice."""
    expected = model(*arrays)
    if len(arrays) == 1:
        assert_same(package, model.predict(arrays[0]), expected)
        return
    assert_same(package, model.predict(list(arrays)), expected)
    for wrong in (arrays[0], arrays[:1]):
        with pytest.raises(TypeError, match=r"takes a dict of arrays .* pass arrays to the model"):
            model.predict(wrong)


def test_one_row_without_its_batch_axis_is_refused_with_advice(model, arrays, growing):
    first = growing[0]
    if model.inputs[first].leading_per_row != 1:
        pytest.skip("a row has several leading extents")
    axis = model.inputs[first].batch_axis
    with pytest.raises(ValueError, match=r"for one row pass array\[(:, )*None\]") as caught:
        model(*arrays[:first], np.take(arrays[first], 0, axis), *arrays[first + 1 :])
    assert str(caught.value).count(":, ") == axis


# --- batching ------------------------------------------------------------------------------------


def test_no_rows_give_no_rows(package, model, arrays, any_rows):
    empty = [
        np.take(array, [], model.inputs[i].batch_axis) if i in any_rows else array
        for i, array in enumerate(arrays)
    ]
    if not all(spec.leading_per_row for spec in model.outputs):
        with pytest.raises(ValueError, match="fixed shape"):
            model(*empty)
        return
    for spec, array in zip(model.outputs, as_dict(package, model(*empty)).values(), strict=True):
        assert array.shape[spec.batch_axis] == 0
        assert all(e in (None, n) for e, n in zip(spec.shape, array.shape, strict=True))


@pytest.mark.usefixtures("any_rows")
def test_rules_can_be_set_and_read(model):
    smallest, largest = model.batch_sizes[0], model.batch_sizes[-1]
    rows, _, sizes = model.batch_rule(5 * largest).partition(":")
    assert int(rows) == 5 * largest <= sum(map(int, sizes.split(",")))
    twice = f"{2 * largest}:{largest},{largest}"
    model.set_batch_rule(twice)
    assert model.batch_rule(2 * largest) == twice
    model.set_batch_strategy("smallest")
    repeats = -(-5 * largest // smallest)
    assert model.batch_rule(5 * largest) == f"{5 * largest}:" + ",".join([str(smallest)] * repeats)


def first_rows(specs, arrays, rows):
    """So many rows of arrays, which begin again where they end."""
    for spec, array in zip(specs, arrays, strict=True):
        axis, count = spec.batch_axis, rows * spec.leading_per_row
        yield array if axis is None else array.take(np.arange(count), axis=axis, mode="wrap")


@pytest.mark.usefixtures("any_rows", "stateless")
def test_fewer_rows_have_the_bits_of_all(package, model, arrays):
    """What a batch leaves in memory changes no row of a later one with fewer."""
    size = model.batch_sizes[-1]
    whole = list(first_rows(model.inputs, arrays, size))
    others = [
        a if s.batch_axis is None else np.flip(a, s.batch_axis)
        for s, a in zip(model.inputs, whole, strict=True)
    ]
    expected = as_dict(package, model(*whole)).values()
    for rows in {1, size // 2, size - 1} - {0}:
        model.set_batch_rule(f"{rows}:{size}")
        model(*others)
        result = as_dict(package, model(*first_rows(model.inputs, whole, rows)))
        for same, array in zip(
            result.values(), first_rows(model.outputs, expected, rows), strict=True
        ):
            assert same.tobytes() == array.tobytes()


@pytest.mark.parametrize("rule", ["", "5", "5:", "1:0", "1:1,1", "3:1", "1:1000003", "one:1"])
def test_malformed_rules_are_refused(model, rule):
    with pytest.raises(ValueError, match="batch"):
        model.set_batch_rule(rule)


def test_negative_rows_are_refused(model):
    with pytest.raises(ValueError, match="rows must not be negative, got -1"):
        model.batch_rule(-1)


def test_unknown_strategy_is_refused(model):
    with pytest.raises(ValueError, match="dearest"):
        model.set_batch_strategy("dearest")


# --- threads -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("stateless")
def test_one_model_serves_many_threads(package, model, arrays):
    variations = [
        [np.roll(array, shift, axis=0) if array.ndim else array for array in arrays]
        for shift in range(4)
    ]
    expected = [model(*variation) for variation in variations]
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda i: model(*variations[i % 4]), range(32)))
    for i, result in enumerate(results):
        assert_same(package, result, expected[i % 4])


@pytest.mark.usefixtures("any_rows")
def test_rules_hold_for_all_threads(model, arrays):
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: model(*arrays), range(16)))
        size = model.batch_sizes[0]
        rule = f"{3 * size}:{size},{size},{size}"
        model.set_batch_rule(rule)
        assert set(threads.map(lambda _: model.batch_rule(3 * size), range(16))) == {rule}


@pytest.mark.parametrize("threads", [2, None])
def test_threads_share_a_call(package, library, model, arrays, threads):
    one = as_dict(package, model(*arrays))
    # Other batch sizes may round differently; steps that threads share do not.
    splits = library.batched and library.no_emulation_reason is None
    limits = {"rtol": 1e-3, "atol": 1e-5} if splits else {"rtol": 0, "atol": 0}
    shared = package.Model(model.level, threads=threads)
    for same in (shared, pickle.loads(pickle.dumps(shared))):
        result = as_dict(package, same(*arrays))
        for name, array in one.items():
            np.testing.assert_allclose(result[name], array, **limits)


@pytest.mark.parametrize(
    ("threads", "error"), [(0, ValueError), (1.5, TypeError), ("2", TypeError)]
)
def test_numbers_of_threads(package, threads, error):
    with pytest.raises(error, match="threads must be"):
        package.Model(threads=threads)


# --- what the package says about itself ----------------------------------------------------------


def test_repr_shows_the_signature(model):
    assert all(spec.name in repr(model) for spec in model.inputs + model.outputs)
    assert model.level in repr(model)


def test_build_files_are_where_the_package_says(package, interfaces, run_python):
    if "c" not in interfaces:
        with pytest.raises(FileNotFoundError, match="has no headers"):
            package.get_include()
        return
    header = Path(package.get_include(), f"{package.__name__}.h")
    cmake = Path(package.get_cmake_dir(), f"{package.__name__}-config.cmake")
    pkgconfig = Path(package.get_pkgconfig_dir(), f"{package.__name__}.pc")
    for path in (header, cmake, pkgconfig, Path(package.get_library())):
        assert path.is_file()
    done = run_python(
        "-m", package.__name__, "--includedir", "--libdir", "--cmakedir", "--pkgconfigdir"
    )
    expected = [
        package.get_include(),
        package.get_library_dir(),
        package.get_cmake_dir(),
        package.get_pkgconfig_dir(),
    ]
    assert done.stdout.split() == expected
