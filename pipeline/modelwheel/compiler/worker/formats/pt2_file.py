"""Files of `torch.export.save`, read and judged without PyTorch.

A `.pt2` is a ZIP archive: the program as JSON, and tensors as plain bytes. It may hold pickles and compiled
libraries too, which PyTorch would load, and strings that it evaluates. `read_program` refuses these, and
only what it returns is given to PyTorch.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....errors import UnsupportedModelError
from ...inspection import TensorInfo

_SAVE = "save the program again with torch.export.save of PyTorch 2.9 or later"
_MEMBERS = re.compile(
    r"data/weights/(weight_\d+|model_weights_config\.json)"
    r"|data/constants/(tensor_\d+|model_constants_config\.json)"
    r"|models/model\.json|archive_format|archive_version|byteorder|\.data/\w+"
)
_SAMPLE = "data/sample_inputs/model.pt"
"""A pickle, which is left out."""
_CONFIGS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
_TARGETS = re.compile(
    r"torch\.ops\.aten\.\w+\.\w+|_operator\.(getitem|add|sub|mul|floordiv|neg|pow)"
)
_CONTAINERS = frozenset({None, "builtins.tuple", "builtins.list", "builtins.dict"})
# PyTorch evaluates these with SymPy.
_EXPRESSION = re.compile(r"[\w\s()+*/,.='-]*")
_WORDS = re.compile(r"Symbol|Integer|Add|Mul|Pow|Max|Min|FloorDiv|CleanDiv|Mod|PythonMod|[su]\d+"
                    r"|positive|nonnegative|integer|True|False")  # fmt: skip
_DTYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    29: "uint32",
    30: "uint64",
}
"""Numbers of ScalarType in torch/_export/serde/schema.py."""


@dataclass(frozen=True)
class Program:
    """A program that was judged."""

    members: Mapping[str, bytes]
    """What was judged, of the archive, without sample inputs."""
    inputs: tuple[TensorInfo, ...]
    """In the order of the arguments."""
    outputs: tuple[TensorInfo, ...]
    least: tuple[tuple[int, ...], ...]
    """For each input, the smallest shape that shows what the program does in general."""

    def archive(self, sample: bytes) -> bytes:
        """An archive with nothing but what was judged, and `sample` in place of the sample inputs."""
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as archive:
            for name, content in sorted({**self.members, _SAMPLE: sample}.items()):
                archive.writestr(zipfile.ZipInfo(f"model/{name}"), content)
        return written.getvalue()


def read_program(path: Path) -> Program:
    """Reads and judges a program.

    Raises:
        UnsupportedModelError: It is damaged, or PyTorch would execute something of it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = _read_members(archive, path.name)
        program = json.loads(members["models/model.json"])
        for name in _CONFIGS:
            _judge_config(json.loads(members[name]), path.name)
        _judge_program(program, path.name)
        program["guards_code"] = []
        for node in program["graph_module"]["graph"]["nodes"]:
            node["metadata"] = {}
        inputs, outputs, least = _interface(program, path.name)
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError, IndexError):
        raise UnsupportedModelError(
            f"{path.name} is damaged, or not what torch.export.save writes; {_SAVE}"
        ) from None
    members["models/model.json"] = json.dumps(program).encode()
    return Program(members, inputs, outputs, least)


def _read_members(archive: zipfile.ZipFile, name: str) -> dict[str, bytes]:
    members = {}
    for member in archive.infolist():
        inner = member.filename.partition("/")[2]
        if inner == _SAMPLE or member.filename.endswith("/.data/serialization_id"):
            continue
        if not _MEMBERS.fullmatch(inner):
            raise UnsupportedModelError(
                f"{name} holds {member.filename!r}, which modelwheel does not load; {_SAVE}, without "
                "compiled parts, custom classes and extra files"
            )
        if member.compress_type != zipfile.ZIP_STORED:
            raise ValueError("PyTorch does not compress")
        members[inner] = archive.read(member)
    return members


def _judge_config(config: Any, name: str) -> None:
    for tensor, entry in config["config"].items():
        if entry.get("use_pickle") is not False:
            raise UnsupportedModelError(
                f"{name} holds the tensor {tensor!r} as a pickle, which is not loaded; make it a "
                "dense tensor"
            )


def _judge_program(program: Any, name: str) -> None:
    for key, value in _walk(program):
        if key == "target" and not _TARGETS.fullmatch(str(value)):
            raise UnsupportedModelError(
                f"the program in {name} calls {str(value)!r}, which is not an operation of ATen; export "
                "it without custom and higher-order operations"
            )
        if key in ("as_operator", "as_custom_obj", "as_graph"):
            raise UnsupportedModelError(
                f"the program in {name} passes an argument that is neither a tensor nor a number; "
                "export it without control flow of PyTorch and custom classes"
            )
        if key == "expr_str" and not _is_expression(str(value)):
            raise UnsupportedModelError(
                f"the program in {name} has a size {str(value)!r} that is not arithmetic; export it again"
            )
        if key in ("in_spec", "out_spec"):
            for inner, kind in _walk(json.loads(value)):
                if inner == "type" and kind not in _CONTAINERS:
                    raise UnsupportedModelError(
                        f"the program in {name} takes or returns a {kind}; use tuples, lists and "
                        "dictionaries"
                    )


def _is_expression(text: str) -> bool:
    words = re.findall(r"[A-Za-z_]\w*", text)
    return bool(_EXPRESSION.fullmatch(text)) and all(map(_WORDS.fullmatch, words))


def _walk(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key of every object, with its value; without recursion, as JSON may nest deeply."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield from found.items()
            waiting += found.values()
        elif isinstance(found, list):
            waiting += found


# --- interface ------------------------------------------------------------------------------------


def _interface(
    program: Any, name: str
) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...], tuple[tuple[int, ...], ...]]:
    module = program["graph_module"]
    values, ranges = module["graph"]["tensor_values"], program["range_constraints"]
    inputs, least = [], []
    for spec in module["signature"]["input_specs"]:
        if "user_input" in spec:
            tensor = _tensor(spec["user_input"]["arg"], name)
            inputs.append(_info(tensor, values[tensor]))
            least.append(tuple(_least(size, ranges) for size in values[tensor]["sizes"]))
        elif spec.keys() & {"token", "custom_obj"}:
            raise UnsupportedModelError(f"the program in {name} has effects or custom classes")
    tensors = []
    for spec in module["signature"]["output_specs"]:
        if "user_output" not in spec:
            raise UnsupportedModelError(
                f"the program in {name} changes its buffers or inputs; call model.eval() before "
                "torch.export.export, and return what changes"
            )
        tensors.append(_tensor(spec["user_output"]["arg"], name))
    (call,) = [entry for entry in module["module_call_graph"] if entry["fqn"] == ""]
    paths = list(_paths(json.loads(call["signature"]["out_spec"])[1], ()))
    names = [_name(path) for path in paths]
    outputs = [_info(n, values[tensor]) for n, tensor in zip(names, tensors, strict=True)]
    return tuple(inputs), tuple(outputs), tuple(least)


def _tensor(argument: Any, name: str) -> str:
    if "as_tensor" not in argument:
        raise UnsupportedModelError(
            f"the program in {name} takes or returns what is not a tensor; pass tensors only"
        )
    return str(argument["as_tensor"]["name"])


def _info(name: str, value: Any) -> TensorInfo:
    dtype = _DTYPES.get(value["dtype"])
    if dtype is None:
        raise UnsupportedModelError(
            f"{name!r} has an element type that TensorFlow lacks; convert it"
        )
    shape = tuple(size.get("as_int") for size in value["sizes"])
    return TensorInfo(name=name, dtype=dtype, shape=shape)


def _least(size: Any, ranges: Any) -> int:
    if "as_int" in size:
        return int(size["as_int"])
    symbol = re.search(r"[su]\d+", size["as_expr"]["expr_str"])
    bounds = ranges.get(symbol[0], {}) if symbol else {}
    # PyTorch treats 0 and 1 apart from all other sizes.
    return max(2, bounds.get("min_val") or 0)


def _paths(spec: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if spec["type"] is None:
        yield path
        return
    children = spec["children_spec"]
    keys = json.loads(spec["context"]) if spec["type"] == "builtins.dict" else range(len(children))
    for key, child in zip(keys, children, strict=True):
        yield from _paths(child, (*path, key))


def _name(path: tuple[str | int, ...]) -> str:
    """`y` for the value of the key `y`, `result0` for the first of several or the only one."""
    path = path or (0,)
    return (
        "_".join(map(str, path))
        if isinstance(path[0], str)
        else "result" + "_".join(map(str, path))
    )
