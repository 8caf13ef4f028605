"""Judging files of `torch.export.save` without PyTorch: what PyTorch would evaluate or write into Python text."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelwheel.compiler.formats.pytorch.pt2_file import read_program
from modelwheel.compiler.formats.pytorch.pt2_judgement import judge_program
from modelwheel.compiler.formats.pytorch.pt2_sizes import NotArithmeticError, write_size
from modelwheel.errors import UnsupportedModelError
from tests.models.hostile_torch import LEAF, torch_program, wide, write_torch_program

SIZES = {
    "s77": "s77",
    "Symbol('s77', positive=True, integer=True)": "Symbol('s77', positive=True, integer=True)",
    "Add(Integer(1), Mul(Integer(2),Symbol('u0', integer=True)))": (
        "Add(Integer(1), Mul(Integer(2), Symbol('u0', integer=True)))"
    ),
    "Pow(Symbol('s0'), Integer(2))": "Pow(Symbol('s0'), Integer(2))",
    "Integer(-7)": "Integer((-7))",
    " 2*s0 + 1 ": "((2 * s0) + 1)",
    "s0**2//4 - (s1 - 1)/3": "(((s0 ** 2) // 4) - ((s1 - 1) / 3))",
    "-s0**2": "(-(s0 ** 2))",
    "+".join(["s0"] * 300): f"({' + '.join(['s0'] * 300)})",
    "FloorDiv(Max(1, s0, s1), 2)": "FloorDiv(Max(1, s0, s1), 2)",
}


@pytest.mark.parametrize(("text", "written"), SIZES.items())
def test_sizes_are_written_from_what_was_parsed(text: str, written: str) -> None:
    assert write_size(text) == written
    assert write_size(written) == written or "((-7))" in written


NOT_SIZES = [
    "",
    "s0 s1",
    "s0 +",
    "(s0",
    "s0)",
    "s0.subs",
    "Integer(1).subs(1, 2)",
    f"Integer(1).{wide('subs')}(1, 2)",
    wide("Integer") + "(1)",
    "\u0661",  # a digit, but not of ASCII
    "'s0'",
    "Symbol(s0)",
    'Symbol("s0")',
    "Symbol('s0', 's1')",
    "Symbol('s0', name=True)",
    "Symbol('s0', positive=s1)",
    "Symbol('evil')",
    "Symbol('True')",
    "Integer('1')",
    "Integer(s0)",
    "Add()",
    "Mod(s0)",
    "eval(s0)",
    "lambda: s0",
    "s0 if s1 else s0",
    "[s0]",
    "s0 == s1",
    "s0\n",
    "s0;s1",
    "s0#",
    "9**9**9**9",
    "Pow(9, Pow(9, 9))",
    "Pow(Pow(Pow(Pow(9, 9), 9), 9), 9)",
    "2**s0",
    "s0**17",
    "9" * 20,
    "*".join(["9" * 19] * 80),
    "(" * 40 + "s0" + ")" * 40,
    "-" * 3000 + "1",
    "s0+" * 5000 + "s0",
]


@pytest.mark.parametrize("text", NOT_SIZES)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(NotArithmeticError):
        write_size(text)


def _read(directory: Path, program: Any, **members: str) -> Any:
    path = directory / "model.pt2"
    write_torch_program(path, program, **members)
    return read_program(path)


def test_pytorch_reads_what_was_judged_and_nothing_else(tmp_path: Path) -> None:
    read = _read(tmp_path, torch_program())
    assert [(t.name, t.shape) for t in read.inputs] == [("x", (None,))]
    assert [t.name for t in read.outputs] == ["result0"]
    assert read.least == ((2,),)
    with zipfile.ZipFile(io.BytesIO(read.archive(b"sample"))) as archive:
        assert archive.read("model/data/sample_inputs/model.pt") == b"sample"
        written = json.loads(archive.read("model/models/model.json"))
    expected = torch_program()
    expected["guards_code"] = []
    expected["graph_module"]["graph"]["nodes"][0]["metadata"] = {}
    assert written == expected


def _node(program: dict[str, Any]) -> dict[str, Any]:
    node: dict[str, Any] = program["graph_module"]["graph"]["nodes"][0]
    return node


def _call(program: dict[str, Any]) -> dict[str, Any]:
    call: dict[str, Any] = program["graph_module"]["module_call_graph"][0]["signature"]
    return call


def _with_keywords(program: dict[str, Any], *names: str) -> None:
    protocol, spec = json.loads(_call(program)["in_spec"])
    leaves = [LEAF] * len(names)
    spec["children_spec"][1] |= {"context": json.dumps(names), "children_spec": leaves}
    _call(program)["in_spec"] = json.dumps([protocol, spec])


CALL = "x=open('/tmp/x','a').write('y')"
CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a name of a node": (lambda p: _node(p).update(name=CALL), "has a value called"),
    "a name of an argument": (
        lambda p: _node(p)["inputs"][0].update(name=CALL),
        "has a value called",
    ),
    "a name of a result": (
        lambda p: _node(p).update(outputs=[{"as_tensor": {"name": CALL}}]),
        "has a value called",
    ),
    "a symbol by its name": (
        lambda p: _node(p)["inputs"][0].update(arg={"as_sym_int": {"as_name": CALL}}),
        "has a value called",
    ),
    "a value of the graph": (
        lambda p: p["graph_module"]["graph"]["sym_int_values"].update({CALL: {"as_int": 1}}),
        "has a value called",
    ),
    "a parameter of Python": (
        lambda p: _call(p).update(forward_arg_names=[CALL]),
        "has a value called",
    ),
    "a keyword of Python": (lambda p: _node(p).update(name="lambda"), "has a value called"),
    "a keyword argument": (lambda p: _with_keywords(p, CALL), "has something called"),
    "a keyword argument that is a keyword": (
        lambda p: _with_keywords(p, "x", "if"),
        "has a value called 'if'",
    ),
    "a name in other letters": (lambda p: _node(p).update(name=wide("x")), "'\\uff58'"),
    "a parameter's name": (
        lambda p: p["graph_module"]["signature"]["input_specs"].append(
            {"parameter": {"arg": {"name": "p"}, "parameter_name": 'a"); evil; ("'}}
        ),
        "has something called",
    ),
    "a text as argument": (
        lambda p: _node(p)["inputs"][0].update(arg={"as_string": "a' + evil() + '"}),
        "has the argument",
    ),
    "a symbol's range": (
        lambda p: p["range_constraints"].update({"evil()": {}}),
        "has a range of 'evil()'",
    ),
    "a field that is not known": (lambda p: p.update(later="evil()"), "has something called"),
    "a key that is not known": (lambda p: p.update({"evil()": 1}), "has something called"),
    "a target in other letters": (
        lambda p: _node(p).update(target=f"torch.ops.aten.{wide('abs')}.default"),
        "is not an operation of ATen",
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_texts_that_could_become_code(tmp_path: Path, kind: str) -> None:
    change, words = CHANGES[kind]
    program = torch_program()
    change(program)
    with pytest.raises(UnsupportedModelError) as caught:
        _read(tmp_path, program)
    said = str(caught.value)
    assert words in said
    assert said.isprintable()
    assert said.isascii()


def test_an_input_that_is_called_like_code(tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedModelError, match="which could become code; use names of letters"
    ):
        _read(tmp_path, torch_program(name=CALL))


def test_names_that_modules_may_have(tmp_path: Path) -> None:
    program = torch_program()
    for name in ("a.0.my-layer.weight", "blocks.first layer.bias", "linear@1"):
        program["graph_module"]["signature"]["input_specs"].append(
            {"parameter": {"arg": {"name": "p_a"}, "parameter_name": name}}
        )
    _node(program)["inputs"][0]["arg"] = {"as_string": "bij,bjk->bik"}
    assert [tensor.name for tensor in _read(tmp_path, program).inputs] == ["x"]


@pytest.mark.parametrize(
    ("stack", "kept"),
    [
        ("self,,a.Net;self.b,blocks.0,a.Block", "module,blocks.0,Module"),
        ("self,,a.Net;self.b,blocks.my-layer 1,a.Block", "module,blocks.my-layer 1,Module"),
        ("self,,a.Net", None),
        ("self,a(),a.Net", None),
        ("self,a\nb,a.Net", None),
        ("", None),
        (["self"], None),
    ],
)
def test_of_notes_only_the_path_of_a_module_is_kept(stack: object, kept: str | None) -> None:
    program = torch_program()
    _node(program)["metadata"] = {
        "nn_module_stack": stack,
        "stack_trace": "evil()",
        "source_fn_stack": "x,torch.evil",
        "from_node": "[]",
    }
    judged = judge_program(program, "model.pt2")
    assert _node(judged)["metadata"] == ({"nn_module_stack": kept} if kept else {})


@pytest.mark.parametrize(
    ("member", "content"),
    [
        ("byteorder", "middle"),
        ("archive_format", "evil"),
        (".data/version", "three"),
        ("models/model.json", "[" * 100_000),
        ("models/model.json", '{"a":' * 150 + "1" + "}" * 150),
    ],
)
def test_damage_is_a_sentence(tmp_path: Path, member: str, content: str) -> None:
    with pytest.raises(UnsupportedModelError, match=r"model\.pt2 is damaged"):
        _read(tmp_path, torch_program(), **{member: content})
