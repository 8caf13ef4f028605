"""Files of kilobytes that would take hours, or all memory, to read; and some that end their parser's stack.

They are written by hand: the libraries that read them write no such files.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEEP = 100_000
"""Brackets in brackets."""
_HEAD = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
_TAIL = "  return %x : tensor<4xf32>\n}\n"


@dataclass(frozen=True)
class Small:
    """A file that is small and takes long."""

    name: str
    attempts: str
    """What it is, as a phrase: `a tree of ...`."""
    file: str
    says: str
    """Part of the sentence that refuses it; empty if it is read like any other."""
    write: Callable[[Path], dict[str, Any]]
    """Writes it; returns what a source says of it beside its path."""


SMALL: list[Small] = []


def _small(attempts: str, file: str, says: str) -> Callable[[Callable[[], bytes]], Any]:
    def register(make: Callable[[], bytes]) -> Callable[[], bytes]:
        def write(directory: Path) -> dict[str, Any]:
            (directory / file).write_bytes(make())
            return {}

        SMALL.append(Small(make.__name__, attempts, file, says, write))
        return make

    return register


# --- MLIR -----------------------------------------------------------------------------------------

_NAMED = "attributes and types would take more than 64 MiB"
_NESTED = "nests brackets more than 500 deep"


@_small("an MLIR attribute of 2^60 numbers in 60 lines", "evil.mlir", _NAMED)
def attribute_aliases() -> bytes:
    return doubled("#a", "[{0}, {0}]", "[0, 1]", 60)


@_small("an MLIR dictionary whose values are the one before", "evil.mlir", _NAMED)
def dictionary_aliases() -> bytes:
    return doubled("#a", "{{a = {0},\n b = {0}}}", "{a = 0}", 60)


@_small("an MLIR type of 2^60 types in 60 lines", "evil.mlir", _NAMED)
def type_aliases() -> bytes:
    return doubled("!t", "tuple<{0}, {0}>", "tuple<f32>", 60)


@_small("an attribute of 5 MB that 5000 operations name", "evil.mlir", _NAMED)
def many_uses() -> bytes:
    text = doubled("#a", "[{0}, {0}]", "[0, 1]", 20).decode()
    uses = "".join(
        f"  %c{n} = stablehlo.add %x, %x {{mhlo.evil = #a19}} : tensor<4xf32>\n"
        for n in range(5000)
    )
    return text.replace("  return", f"{uses}  return").encode()


@_small("a text of 2 MB that an attribute names 6000 times", "evil.mlir", _NAMED)
def shared_text() -> bytes:
    text = f'#s = "{"x" * 2_000_000}"\n'
    return f"{text}module attributes {{mhlo.evil = [{'#s, ' * 6000}#s]}} {{\n{_HEAD}{_TAIL}}}\n".encode()


@_small("100 000 attributes that are in each other", "evil.mlir", "more than 2000 deep")
def attribute_chain() -> bytes:
    lines = "".join(f"#a{n} = [#a{n - 1}]\n" for n in range(1, DEEP))
    return _module(f"#a0 = [0]\n{lines}", f"#a{DEEP - 1}")


def doubled(mark: str, step: str, first: str, levels: int) -> bytes:
    """A module with an attribute or type that names the one before twice, and so on."""
    lines = [f"{mark}0 = {first}\n"]
    lines += [f"{mark}{n} = {step.format(f'{mark}{n - 1}')}\n" for n in range(1, levels)]
    last = f"{mark}{levels - 1}"
    return _module("".join(lines), last) if mark == "#a" else _typed("".join(lines), last)


def _module(before: str, attribute: str) -> bytes:
    text = f"{before}module attributes {{mhlo.evil = {attribute}}} {{\n{_HEAD}{_TAIL}}}\n"
    return text.encode()


def _typed(before: str, kind: str) -> bytes:
    head = _HEAD.replace("(%x", f"(%y: {kind}, %x")
    return f"{before}{head}{_TAIL}".encode()


@_small("lists in 100 000 lists in MLIR", "evil.mlir", _NESTED)
def nested_attribute() -> bytes:
    return _module("", "[" * DEEP + "]" * DEEP)


@_small("a type in 100 000 types", "evil.mlir", _NESTED)
def nested_type() -> bytes:
    return _typed("", "tuple<" * DEEP + "f32" + ">" * DEEP)


@_small("a place in 100 000 places", "evil.mlir", _NESTED)
def nested_location() -> bytes:
    place = "fused[" * DEEP + '"a"' + "]" * DEEP
    return f"{_HEAD}{_TAIL.replace('xf32>', f'xf32> loc({place})')}".encode()


@_small("a branch in 20 000 branches", "evil.mlir", _NESTED)
def nested_region() -> bytes:
    begin = '%y = "stablehlo.if"(%p) ({\n'
    end = "}, {\n stablehlo.return %x : tensor<4xf32>\n}) : (tensor<i1>) -> tensor<4xf32>\n"
    body = f"{begin * 20_000}stablehlo.return %x : tensor<4xf32>\n{end * 20_000}"
    return f"{_HEAD.replace('(%x', '(%p: tensor<i1>, %x')}{body}{_TAIL}".encode()


@_small("a module in 50 000 modules", "evil.mlir", _NESTED)
def nested_module() -> bytes:
    return f"{'module {' * 50_000}{_HEAD}{_TAIL}{'}' * 50_000}".encode()


# --- jax.export -----------------------------------------------------------------------------------

_DAMAGED = "is damaged or was not written by jax.export"


@_small("arguments of jax.export in a tree of 2^90 leaves", "evil.jax", _DAMAGED)
def shared_tree() -> bytes:
    def tree(flat: _Flat) -> int:
        node = flat.node(0)
        for _ in range(90):
            node = flat.node(2, [node, node])
        return node

    return exported(tree)


@_small("6000 arguments that have one name of 2 MB", "evil.jax", _DAMAGED)
def shared_names() -> bytes:
    def tree(flat: _Flat) -> int:
        name = flat.builder.CreateString("x" * 2_000_000)
        return flat.node(4, [flat.node(0)] * 6000, [name] * 6000)

    return exported(tree)


@_small("6000 arguments in a dictionary whose key has 2 MB", "evil.jax", _DAMAGED)
def long_key() -> bytes:
    def tree(flat: _Flat) -> int:
        name = flat.builder.CreateString("x" * 2_000_000)
        inner = flat.node(2, [flat.node(0) for _ in range(6000)])
        return flat.node(4, [inner], [name])

    return exported(tree, kinds=6000)


class _Flat:
    """What the tables of a flatbuffer are written with."""

    def __init__(self) -> None:
        import flatbuffers

        self.builder = flatbuffers.Builder(0)

    def vector(self, offsets: list[int]) -> int:
        """A vector of tables or texts."""
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def node(
        self, kind: int, children: list[int] | None = None, names: list[int] | None = None
    ) -> int:
        """A part of a tree: 0 a leaf, 2 a list, 4 a dictionary."""
        vectors = {1: children, 2: names}
        placed = {slot: self.vector(given) for slot, given in vectors.items() if given is not None}
        self.builder.StartObject(4)
        self.builder.PrependUint8Slot(0, kind, 255)
        for slot, offset in placed.items():
            self.builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        return int(self.builder.EndObject())


def exported(tree: Callable[[_Flat], int], kinds: int = 0) -> bytes:
    """What `jax.export` writes for a function with such a tree of arguments, as far as it is read before the module."""
    flat = _Flat()
    arguments, platforms = tree(flat), flat.vector([flat.builder.CreateString("cpu")])
    module = flat.builder.CreateByteVector(b"ML\xefR" + b"\0" * 20)
    arrays = flat.vector([flat.node(6) for _ in range(kinds)])
    flat.builder.StartObject(24)
    for slot, offset in ((2, arguments), (3, arrays), (9, platforms), (13, module)):
        flat.builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    flat.builder.PrependUint16Slot(14, 9, 0)
    flat.builder.Finish(flat.builder.EndObject())
    return bytes(flat.builder.Output())


# --- other formats --------------------------------------------------------------------------------


@_small("an HDF5 file whose groups are linked twice each", "evil.h5", "has two names")
def groups_twice() -> bytes:
    import h5py

    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.attrs.update({"model_config": "{}", "keras_version": "2.13.1"})
        group = file
        for _ in range(60):
            inner = group.create_group("a")
            group["b"] = inner  # a hard link
            group = inner
    return content.getvalue()


@_small("ONNX functions that are called in 2^40 different ways", "evil.onnx", "")
def calls_that_differ() -> bytes:
    from onnx import TensorProto, helper

    names, levels = [f"a{n}" for n in range(40)], 40
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]

    def function(level: int) -> Any:
        if level == levels:
            nodes = [helper.make_node("Sum", names, ["c"])]
        else:
            other = [*names[:level], "unknown", *names[level + 1 :]]
            nodes = [
                helper.make_node(f"f{level + 1}", [*given, "unknown"], [result], domain="f")
                for given, result in ((names, "b"), (other, "c"))
            ]
        return helper.make_function("f", f"f{level}", [*names, "unknown"], ["c"], nodes, imports)

    one = helper.make_tensor("t", TensorProto.FLOAT, [4], [1.0] * 4)
    nodes = [helper.make_node("Constant", [], [name], value=one) for name in names]
    nodes.append(helper.make_node("f0", [*names, "x"], ["y"], domain="f"))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    graph = helper.make_graph(nodes, "evil", [x], [y])
    functions = [function(level) for level in range(levels + 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=functions)
    return bytes(model.SerializeToString())


@_small(
    "a .pt2 file whose 10 000 members are the same megabyte",
    "evil.pt2",
    "is damaged, or not what torch.export.save writes",
)
def shared_members() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("evil/data/weights/weight_0", b"x" * (1 << 20))
        (first,) = archive.infolist()
        for number in range(1, 10_000):
            member = zipfile.ZipInfo(f"evil/data/weights/weight_{number}")
            member.header_offset, member.CRC = first.header_offset, first.CRC
            member.file_size = member.compress_size = first.file_size
            archive.filelist.append(member)
    return written.getvalue()


def _ports(directory: Path) -> dict[str, Any]:
    nodes = (
        'node {name: "x" op: "Placeholder" attr {key: "dtype" value {type: DT_FLOAT}}}\n'
        'node {name: "y" op: "Neg" input: "x" attr {key: "T" value {type: DT_FLOAT}}}\n'
    )
    fetches = (f'fetch {{id {{node_name: "y"}} name: "y{n}"}}\n' for n in range(20_000))
    (directory / "evil.pbtxt").write_text(nodes)
    (directory / "evil.config.pbtxt").write_text("".join(fetches))
    return {"config": "evil.config.pbtxt"}


SMALL.append(
    Small(
        "many_ports",
        "a Config with 20 000 outputs",
        "evil.pbtxt",
        "names 20000 feeds, fetches and variables",
        _ports,
    )
)
