"""Files of `torch.export.save`, read and judged without PyTorch.

A `.pt2` is a ZIP archive: the program as JSON, and tensors as plain bytes. It may hold pickles and compiled
libraries too, which PyTorch would load, and strings that it evaluates. `read_program` refuses these, and
only what it returns is given to PyTorch: an archive that is written from what was judged.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....errors import UnsupportedModelError
from ....model.inspection import TensorInfo
from .pt2_judgement import judge_payload, judge_program
from .pt2_sizes import first_symbol

_SAVE = "save the program again with torch.export.save of PyTorch 2.9 or later"
_MEMBERS = re.compile(
    r"data/weights/(weight_\d+|model_weights_config\.json)"
    r"|data/constants/(tensor_\d+|model_constants_config\.json)"
    r"|models/model\.json",
    re.ASCII,
)
_FACTS = {
    "archive_format": re.compile(rb"pt2"),
    "archive_version": re.compile(rb"\d{1,9}"),
    "byteorder": re.compile(rb"little|big"),
    ".data/version": re.compile(rb"\d{1,9}\n?"),
}
"""What other files of an archive say."""
_SAMPLE = "data/sample_inputs/model.pt"
"""A pickle, which is left out."""
_PROGRAM = "models/model.json"
_CONFIGS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
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
            if sum(m.file_size for m in archive.infolist()) > path.stat().st_size:
                raise ValueError("files that share their bytes unpack to more than there is")
            members = _read_members(archive, path.name)
        judged = {
            _PROGRAM: judge_program(json.loads(members[_PROGRAM]), path.name),
            **{name: judge_payload(json.loads(members[name]), path.name) for name in _CONFIGS},
        }
        inputs, outputs, least = _interface(judged[_PROGRAM], path.name)
    except (
        *(zipfile.BadZipFile, zlib.error, EOFError, OSError, LookupError, RecursionError),
        *(RuntimeError, ValueError, TypeError, AttributeError),
    ):
        raise UnsupportedModelError(
            f"{path.name} is damaged, or not what torch.export.save writes; {_SAVE}", code="MW416"
        ) from None
    members |= {name: json.dumps(value).encode() for name, value in judged.items()}
    return Program(members, inputs, outputs, least)


def _read_members(archive: zipfile.ZipFile, name: str) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    for member in archive.infolist():
        inner = member.filename.partition("/")[2]
        if inner == _SAMPLE or member.filename.endswith("/.data/serialization_id"):
            continue
        if not _MEMBERS.fullmatch(inner) and inner not in _FACTS:
            raise UnsupportedModelError(
                f"{name} holds {member.filename!r}, which modelwheel does not load; {_SAVE}, without "
                "compiled parts, custom classes and extra files"
            )
        if member.compress_type != zipfile.ZIP_STORED:
            raise ValueError("PyTorch does not compress")
        if inner in members:
            raise ValueError("two of its files have the same name")
        members[inner] = archive.read(member)
        if inner in _FACTS and not _FACTS[inner].fullmatch(members[inner]):
            raise ValueError(f"{inner} says something else")
    return members


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
            raise UnsupportedModelError(
                f"the program in {name} has effects or custom classes", code="MW407"
            )
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
    symbol = first_symbol(size["as_expr"]["expr_str"])
    bounds = ranges.get(symbol, {}) if symbol else {}
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
