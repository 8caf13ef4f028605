"""The state of the installed model, if it keeps one: carried from call to call, and never shared unasked."""

import copy
import pickle
import threading

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def stateful(package):
    if not package.Model.states:
        pytest.skip("the model keeps no state")


@pytest.fixture
def fresh(package):
    """A model as users have it: its calls depend on those before."""
    return package.Model()


def same(one, other):
    return all(one[name].tobytes() == other[name].tobytes() for name in one | other)


def outputs_of(package, result):
    return {package.Model.outputs[0].name: result} if isinstance(result, np.ndarray) else result


def test_reset_and_state_bring_calls_back(package, fresh, arrays):
    first = fresh.state
    results = [outputs_of(package, fresh(*arrays)) for _ in range(3)]
    assert not same(fresh.state, first)
    fresh.reset()
    assert same(fresh.state, first)
    fresh(*arrays)
    fresh.state = first
    assert same(outputs_of(package, fresh(*arrays)), results[0])


def test_the_state_is_a_copy_of_arrays_as_described(fresh, arrays):
    before = fresh.state
    for spec in fresh.states:
        assert (before[spec.name].dtype, before[spec.name].shape) == (spec.dtype, spec.shape)
        before[spec.name][...] = 1
    assert list(before) == [spec.name for spec in fresh.states]
    kept = fresh.state
    fresh(*arrays)
    assert not same(kept, fresh.state)


@pytest.mark.parametrize(
    "duplicate",
    [lambda m: m.copy(), copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))],
    ids=["copy", "copy.copy", "deepcopy", "pickle"],
)
def test_copies_go_on_from_the_same_state_and_apart(package, fresh, arrays, duplicate):
    fresh(*arrays)
    other = duplicate(fresh)
    assert same(other.state, fresh.state)
    expected = outputs_of(package, fresh(*arrays))
    assert not same(other.state, fresh.state)
    assert same(outputs_of(package, other(*arrays)), expected)


def test_a_call_that_is_refused_changes_nothing(fresh, arrays):
    fresh(*arrays)
    before = fresh.state
    with pytest.raises(TypeError):
        fresh(arrays[0].astype("complex64" if arrays[0].dtype != "complex64" else "float32"))
    assert same(before, fresh.state)


def test_wrong_states_are_refused_whole(fresh, arrays):
    fresh(*arrays)
    before = fresh.state
    last = fresh.states[-1]
    zeros = {name: np.zeros_like(array) for name, array in before.items()}
    wrong = np.zeros(last.shape, "float32" if last.dtype == np.float64 else "float64")
    for state, error, text in [
        ({**zeros, "no such state": 1}, TypeError, "unknown name 'no such state'; its names are"),
        ({n: a for n, a in zeros.items() if n != last.name}, TypeError, "the state lacks"),
        ({**zeros, last.name: wrong}, TypeError, rf"state '.*' must be {last.dtype}"),
        ({**zeros, last.name: zeros[last.name][None]}, ValueError, r"must have the shape \("),
        (3, TypeError, "the state is a dict of arrays by name, got int"),
    ]:
        with pytest.raises(error, match=text):
            fresh.state = state
        assert same(before, fresh.state)


def test_threads_with_a_model_each_do_not_meet(package, arrays):
    def run(results):
        model = package.Model()
        results += [outputs_of(package, model(*arrays)) for _ in range(8)]

    every = [[] for _ in range(4)]
    threads = [threading.Thread(target=run, args=(results,)) for results in every]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for results in every[1:]:
        assert all(same(a, b) for a, b in zip(results, every[0], strict=True))


def test_calls_of_one_model_at_the_same_time_are_refused_or_in_a_row(package, fresh, arrays):
    """Whatever threads do, the state is that after as many calls as succeeded."""
    succeeded, refused = [], []

    def run():
        for _ in range(50):
            try:
                fresh(*arrays)
                succeeded.append(1)
            except RuntimeError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("another call is under way" in text for text in refused)
    alone = package.Model()
    for _ in succeeded:
        alone(*arrays)
    assert same(alone.state, fresh.state)
