"""One side of a comparison: a program that runs a model with one runtime and is told when, line by line.

It runs by its path, also where modelwheel is not installed, and so imports nothing of it but the sides that need
TensorFlow. Its arguments are the kind of the runtime, the model (a module or a file), the number of threads, the CPU
level (empty for the highest), a directory with `ROWS.npz`, the inputs of every number of rows, and perhaps
`constants.npz`, those that a spec makes constant, the first of these numbers, and, if it is to see a CPU of a lower
level, a library for that (see `cpu`) and, where this one needs it, a directory with a patched copy of the runtime. The
first answer says what importing the runtime, loading the model and one prediction took; then each line is a JSON list
of a request's name and numbers, and is answered by one line. Outputs are written to `ROWS.npz` in the working directory.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import mmap
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Arrays = Mapping[str, "np.ndarray[Any, Any]"]
Bound = tuple[Callable[[], Any], Callable[[Any], Arrays]]
"""A call with inputs that are in place, and what makes arrays of its result."""
Plain = tuple[Callable[[Arrays], Any], Callable[[Any], Arrays]]
"""A call that takes its inputs, in any number of rows, and what makes arrays of its result."""


class Runtime(Protocol):
    """A loaded model. Where it has state, calls begin with the first one: sides are compared after equally many of them."""

    version: str

    def bind(self, inputs: Arrays) -> Bound:
        """Puts inputs in place, which a call then uses."""

    def plain(self) -> Plain:
        """Calls as programs make them that get new arrays each time."""


class _Wheel:
    """The compiled model, which uses one thread if its rows cannot be split."""

    def __init__(self, path: str, threads: int, level: str) -> None:
        module = importlib.import_module(path)
        self.version = module.Model.version
        try:
            self._model = module.Model(level or None, threads=threads)
        except ValueError:
            self._model = module.Model(level or None)
        self.level = self._model.level

    def bind(self, inputs: Arrays) -> Bound:
        self._model.reset()
        call = self._model.bind(*(inputs[spec.name] for spec in self._model.inputs))
        return call, self._named

    def plain(self) -> Plain:
        model, names = self._model, [spec.name for spec in self._model.inputs]
        model.reset()
        return (lambda inputs: model(*[inputs[name] for name in names])), self._named

    def _named(self, result: Any) -> Arrays:
        return result if isinstance(result, dict) else {self._model.outputs[0].name: result}


class _OnnxRuntime:
    """ONNX Runtime with bound buffers."""

    def __init__(self, path: str, threads: int, _: str) -> None:
        import onnxruntime as ort

        self._ort, self.version = ort, ort.__version__
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        providers = ["CPUExecutionProvider"]
        self._session = ort.InferenceSession(path, options, providers=providers)
        self._ranks = {node.name: len(node.shape) for node in self._session.get_inputs()}

    def bind(self, inputs: Arrays) -> Bound:
        session, binding = self._session, self._session.io_binding()
        arrays = named(inputs, self._ranks)
        outputs = [node.name for node in session.get_outputs()]
        for name, array in arrays.items():
            binding.bind_ortvalue_input(name, self._ort.OrtValue.ortvalue_from_numpy(array))
        for name in outputs:
            binding.bind_output(name)
        session.run_with_iobinding(binding)
        values = binding.get_outputs()
        for name, value in zip(outputs, values, strict=True):
            binding.bind_ortvalue_output(name, value)
        by_name = dict(zip(outputs, values, strict=True))
        read = lambda _: {name: value.numpy() for name, value in by_name.items()}
        return (lambda: session.run_with_iobinding(binding)), read

    def plain(self) -> Plain:
        session = self._session
        ranks, outputs = self._ranks, [node.name for node in session.get_outputs()]
        call = lambda arrays: session.run(outputs, named(arrays, ranks))
        return call, lambda result: dict(zip(outputs, result, strict=True))


class _OpenVino:
    """OpenVINO in float32; bound calls with the shapes of the inputs, plain ones with those of the file."""

    def __init__(self, path: str, threads: int, _: str) -> None:
        import openvino as ov

        self._ov, self.version = ov, ov.__version__.partition("-")[0]
        self._core, self._path = ov.Core(), path
        self._settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
        }

    def bind(self, inputs: Arrays) -> Bound:
        model = self._core.read_model(self._path)
        arrays = named(inputs, _ranks(model.inputs))
        model.reshape({name: list(array.shape) for name, array in arrays.items()})
        compiled = self._core.compile_model(model, "CPU", self._settings)
        request = compiled.create_infer_request()
        for name, array in arrays.items():
            request.set_tensor(name, self._ov.Tensor(array, shared_memory=True))
        ports = {port.get_any_name(): port for port in compiled.outputs}
        read = lambda _: {name: request.get_tensor(p).data for name, p in ports.items()}
        return (lambda: request.infer(share_outputs=True)), read

    def plain(self) -> Plain:
        compiled = self._core.compile_model(self._path, "CPU", self._settings)
        request = compiled.create_infer_request()
        ranks = _ranks(compiled.inputs)
        ports = {port.get_any_name(): port for port in compiled.outputs}
        shared = {"share_inputs": True, "share_outputs": True}
        call = lambda arrays: request.infer(named(arrays, ranks), **shared)
        return call, lambda result: {name: result[port] for name, port in ports.items()}


def _ranks(ports: Sequence[Any]) -> dict[str, int]:
    """The axes of OpenVINO's inputs by name; those of an unknown number have as many as an array."""
    shapes = {port.get_any_name(): port.get_partial_shape() for port in ports}
    return {name: len(s) if s.rank.is_static else 0 for name, s in shapes.items()}


class _LiteRt:
    """LiteRT, with XNNPACK."""

    def __init__(self, path: str, threads: int, _: str) -> None:
        from importlib.metadata import version

        from ai_edge_litert.interpreter import Interpreter

        self.version = version("ai-edge-litert")
        self._open: Callable[[], Any] = lambda: Interpreter(path, num_threads=threads)

    def bind(self, inputs: Arrays) -> Bound:
        interpreter, places, outputs = self._opened()
        self._put(interpreter, places, inputs, resize=True)
        read = lambda _: {name: interpreter.get_tensor(i) for name, i in outputs.items()}
        return interpreter.invoke, read

    def plain(self) -> Plain:
        interpreter, places, outputs = self._opened()
        before: list[tuple[int, ...]] = []

        def call(inputs: Arrays) -> Arrays:
            shapes = [array.shape for array in inputs.values()]
            self._put(interpreter, places, inputs, resize=shapes != before)
            before[:] = shapes
            interpreter.invoke()
            return {name: interpreter.get_tensor(i) for name, i in outputs.items()}

        return call, lambda result: result

    def _opened(self) -> tuple[Any, dict[str, int], dict[str, int]]:
        """An interpreter, and the numbers of its inputs and outputs."""
        interpreter = self._open()
        if not interpreter.get_signature_list():
            ports = (interpreter.get_input_details(), interpreter.get_output_details())
            places, outputs = ({d["name"]: d["index"] for d in details} for details in ports)
            return interpreter, places, outputs
        # The runner knows the names of the signature, but copies, and keeps the interpreter from changing shapes.
        runner = interpreter.get_signature_runner()
        places = {name: d["index"] for name, d in runner.get_input_details().items()}
        outputs = {name: d["index"] for name, d in runner.get_output_details().items()}
        del runner
        return interpreter, places, outputs

    @staticmethod
    def _put(interpreter: Any, places: Mapping[str, int], inputs: Arrays, *, resize: bool) -> None:
        arrays = named(inputs, dict.fromkeys(places, 0))
        if resize:
            for name, array in arrays.items():
                interpreter.resize_tensor_input(places[name], array.shape)
            interpreter.allocate_tensors()
        for name, array in arrays.items():
            interpreter.set_tensor(places[name], array)


def _tensorflow(path: str, threads: int, _: str) -> Runtime:
    from modelwheel.bench.sides.tensorflow import TensorFlowSide

    return TensorFlowSide(path, threads, jit=False)


def _xla(path: str, threads: int, _: str) -> Runtime:
    from modelwheel.bench.sides.tensorflow import TensorFlowSide

    return TensorFlowSide(path, threads, jit=True)


RUNTIMES: Mapping[str, Callable[[str, int, str], Runtime]] = {
    "wheel": _Wheel,
    "onnxruntime": _OnnxRuntime,
    "openvino": _OpenVino,
    "litert": _LiteRt,
    "tensorflow": _tensorflow,
    "xla": _xla,
}


def named(inputs: Arrays, ranks: Mapping[str, int]) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs by a runtime's names, which converters may have changed but not put in another order.

    Args:
        inputs: What the wheel takes, and what its spec makes constant.
        ranks: The number of axes by the runtime's names; a single value may have more of them than in the spec.
    """
    sources = _sources(tuple(inputs), tuple(ranks))
    return {
        name: array if (array := inputs[source]).ndim else array.reshape((1,) * ranks[name])
        for name, source in sources.items()
    }


@cache
def _sources(inputs: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
    """The inputs that a runtime's names are of: found once, as calls that are timed ask for them."""
    changed = [name for name in names if name not in inputs]
    others = [name for name in inputs if name not in names]
    renamed = dict(zip(changed, others, strict=True)) if len(changed) == len(others) else {}
    return {name: renamed.get(name, name) for name in names}


# --- measuring ------------------------------------------------------------------------------------


def resident_bytes() -> int | None:
    """The memory of this process; None where the system does not say it in this way."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * mmap.PAGESIZE


def time_calls(call: Callable[[], object], calls: int) -> float:
    """Seconds of some calls."""
    numbers, start = range(calls), time.perf_counter()
    for _ in numbers:
        call()
    return time.perf_counter() - start


def time_each(call: Callable[[], object], calls: int) -> list[float]:
    """Microseconds of a call that half of them, 99 % and 99.9 % do not exceed."""
    times, clock = np.empty(calls, np.int64), time.perf_counter_ns
    for number in range(calls):
        start = clock()
        call()
        times[number] = clock() - start
    return [float(value) / 1e3 for value in np.percentile(times, [50, 99, 99.9])]


def time_new_arrays(call: Callable[[Arrays], object], inputs: Sequence[Arrays]) -> float:
    """Seconds of a call with each of these inputs, whose arrays are copied before the clock starts."""
    total, clock = 0, time.perf_counter_ns
    for given in inputs:
        arrays = {name: array.copy() for name, array in given.items()}
        start = clock()
        call(arrays)
        total += clock() - start
    return total / 1e9


class Server:
    """Answers requests about one model."""

    def __init__(self, runtime: Runtime, inputs: Path) -> None:
        self._runtime, self._inputs = runtime, inputs
        self._plain: Plain | None = None
        self._given: dict[int, Arrays] = {}
        self._bound: dict[int, Callable[[], object]] = {}
        self._kept: dict[int, Arrays] = {}  # runtimes with bound buffers have their addresses alone

    def bind(self, rows: int) -> float:
        """Writes the outputs for a number of rows; gives the seconds of one call."""
        self._kept[rows] = load(self._inputs, rows)
        call, read = self._runtime.bind(self._kept[rows])
        np.savez(f"{rows}.npz", **read(call()))  # type: ignore[arg-type]
        self._bound[rows] = call
        call()
        return time_calls(call, 1)

    def time(self, rows: int, calls: int) -> float:
        """See `time_calls`."""
        return time_calls(self._bound[rows], calls)

    def each(self, rows: int, calls: int) -> list[float]:
        """See `time_each`."""
        return time_each(self._bound[rows], calls)

    def drop(self, rows: int) -> None:
        """Frees what was bound, and the inputs of plain calls."""
        del self._bound[rows], self._kept[rows]
        self._given.clear()

    def plain(self, *rows: int) -> str | None:
        """Makes plain calls possible and writes their outputs; gives why the runtime has none with these numbers of rows.

        Bound calls of the same process are still possible then.
        """
        try:
            call, read = self._plain = self._runtime.plain()
            for number in rows:
                given = self._given[number] = load(self._inputs, number)
                np.savez(f"{number}.npz", **read(call(given)))  # type: ignore[arg-type]
                call(given)
        except Exception as error:  # noqa: BLE001 - whatever a runtime raises is its answer
            return f"{type(error).__name__}: {error}"
        return None

    def new_arrays(self, turns: int, *rows: int) -> float:
        """Seconds of a plain call for each of these numbers of rows in turn, so many times, each with new arrays."""
        assert self._plain is not None
        return time_new_arrays(self._plain[0], [self._given[number] for number in rows] * turns)

    def after_silence(self, rows: int, milliseconds: int) -> float:
        """Seconds of a plain call after some time in which this process sleeps."""
        time.sleep(milliseconds / 1e3)
        return self.new_arrays(1, rows)


def load(directory: Path, rows: int) -> Arrays:
    """The inputs for a number of rows, and those that are constant, at addresses that every runtime can use without a copy."""
    inputs: dict[str, np.ndarray[Any, Any]] = {}
    constants = directory / "constants.npz"
    for file in (directory / f"{rows}.npz", *([constants] if constants.exists() else [])):
        with np.load(file) as arrays:
            inputs |= {name: _aligned(arrays[name]) for name in arrays.files}
    return inputs


def _aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy: np.ndarray[Any, Any] = memory[start : start + array.nbytes].view(array.dtype)
    copy = copy.reshape(array.shape)
    copy[...] = array
    return copy


def lower_cpu(library: Path, copy: Path | None) -> bool:
    """Whether this process now sees a CPU of a lower level: all of it, or a runtime that is imported from a copy."""
    lowered = bool(ctypes.CDLL(str(library)).lower_cpu(copy is not None))
    if lowered and copy is not None:
        sys.path.insert(0, str(copy))
    return lowered


def uses_copy(copy: Path, maps: Path = Path("/proc/self/maps")) -> bool:
    """Whether the libraries that this process has loaded of a runtime are all from its patched copy."""
    copy = copy.resolve()
    names = {path.name for path in copy.rglob("*.so*")}
    lines = (line.split(maxsplit=5) for line in maps.read_text().splitlines())
    loaded = {Path(line[5]) for line in lines if len(line) == 6}
    own = [path for path in loaded if path.name in names]
    return bool(own) and all(path.is_relative_to(copy) for path in own)


def main() -> None:
    """Serves until its input ends."""
    kind, path, threads, level, directory, rows, *lower = sys.argv[1:]
    # Whatever a runtime prints goes to standard error: answers have a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value: object) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    try:
        inputs = load(Path(directory), int(rows))
        copy = Path(lower[1]) if len(lower) > 1 else None
        lowered = bool(lower) and lower_cpu(Path(lower[0]), copy)
        before, start = resident_bytes(), time.perf_counter()
        runtime = RUNTIMES[kind](path, int(threads), level)
        runtime.bind(inputs)[0]()
        seconds, after = time.perf_counter() - start, resident_bytes()
        memory = None if before is None or after is None else after - before
        lowered = lowered and (copy is None or uses_copy(copy))
        about = {"version": runtime.version, "level": getattr(runtime, "level", None)}
        answer({"seconds": seconds, "memory": memory, "lowered": lowered, **about})
        server = Server(runtime, Path(directory))
        for line in sys.stdin:
            name, *numbers = json.loads(line)
            answer(getattr(server, name)(*numbers))
    except Exception as error:  # noqa: BLE001 - whatever a runtime raises is its answer
        answer({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
