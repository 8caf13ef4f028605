"""Calls whose arrays are bound: the same results, in the same memory each time."""

import gc
import weakref

import numpy as np
import pytest


def as_dict(package, result):
    return {package.Model.outputs[0].name: result} if isinstance(result, np.ndarray) else result


def as_bytes(package, result):
    return {name: array.tobytes() for name, array in as_dict(package, result).items()}


@pytest.fixture
def own(arrays):
    """Inputs that may be written, for this test alone."""
    return [array.copy() for array in arrays]


def test_each_call_reads_what_the_arrays_have_then(package, model, own):
    call = model.bind(*own)
    model.reset()
    first = call()
    expected = as_bytes(package, model(*own))
    assert as_bytes(package, first) == expected
    kept = [array.copy() for array in own]
    for array in own:
        array[...] = np.zeros_like(array)
    zeros = as_bytes(package, model(*own))
    model.reset()
    assert call() is first
    assert as_bytes(package, first) == zeros
    for array, values in zip(own, kept, strict=True):
        array[...] = values
    model.reset()
    call()
    assert as_bytes(package, first) == expected


def test_results_are_written_to_out(package, model, own):
    expected = as_dict(package, model(*own))
    if any(spec.name == "out" for spec in model.inputs):
        pytest.skip("the keyword is an input")
    out = {name: np.zeros_like(array) for name, array in expected.items()}
    one = next(iter(out.values()))
    model.reset()
    result = model.bind(*own, out=one if len(out) == 1 else out)()
    for name, array in as_dict(package, result).items():
        assert array is out[name]
    assert as_bytes(package, result) == as_bytes(package, expected)


def test_inputs_may_be_bound_by_name(package, library, model, own):
    named = {identifier: a for (*_, identifier), a in zip(library.inputs, own, strict=True)}
    call = model.bind(**named)
    model.reset()
    assert as_bytes(package, call()) == as_bytes(package, model(*own))


def test_what_would_be_a_copy_is_refused(model, own):
    with pytest.raises(TypeError, match="is missing input"):
        model.bind(*own[:-1])
    with pytest.raises(TypeError, match=r"bind\(\): input '.*' must be a NumPy array, .*got list"):
        model.bind(own[0].tolist() if own[0].ndim else [1], *own[1:])
    wrong = np.zeros(own[0].shape, "f8" if own[0].dtype != np.float64 else "f4")
    with pytest.raises(TypeError, match=r"must be .*, got float"):
        model.bind(wrong, *own[1:])
    if own[0].ndim and own[0].size > 1:
        strided = np.repeat(own[0], 2, axis=-1)[..., ::2]
        with pytest.raises(ValueError, match=r"is not C-contiguous, .*ascontiguousarray"):
            model.bind(strided, *own[1:])


def test_a_bound_call_takes_no_arguments(model, own):
    call = model.bind(*own)
    with pytest.raises(TypeError, match="a bound call takes no arguments"):
        call(own[0])
    with pytest.raises(TypeError, match="a bound call takes no arguments"):
        call(x=own[0])


def test_an_array_with_other_memory_is_refused(model, own):
    if not own[0].size:
        pytest.skip("the first input has no elements")
    call = model.bind(*own)
    shape = own[0].shape
    own[0].resize((own[0].size * 100,), refcheck=False)
    with pytest.raises(ValueError, match=r"bound to input '.*' has other memory now; bind it"):
        call()
    own[0].resize(shape, refcheck=False)
    again = model.bind(*own)
    model.reset()
    again()
    own[0].resize((0,), refcheck=False)
    with pytest.raises(ValueError, match="has other memory now"):
        again()


def test_a_bound_call_keeps_what_it_needs_and_no_longer(package, own):
    class Mine(np.ndarray):
        pass

    model = package.Model()
    first = own[0].view(Mine)
    call = model.bind(first, *own[1:])
    first.call = call  # a cycle, through the array
    seen = weakref.ref(first)
    del model, first
    gc.collect()
    assert as_bytes(package, call())
    del call
    gc.collect()
    assert seen() is None


def test_no_constructor_makes_one(model, own):
    call = model.bind(*own)
    with pytest.raises(TypeError):
        type(call)()
    with pytest.raises(TypeError):
        object.__new__(type(call))
    with pytest.raises(TypeError):
        type("Derived", (type(call),), {})
