"""Random modules compute the same after products have taken over what follows them, wherever XLA has their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from modelwheel.compiler.ir.assignment.assign import assign
from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.ir.graph_check import check
from modelwheel.compiler.ir.graph_text import graph_text
from modelwheel.compiler.passes import PIPELINE
from modelwheel.program.arrays import Slice
from modelwheel.program.program import Program
from modelwheel.program.verify import verify
from tests.support.interpreter import run_graph, run_steps
from tests.support.modules import Emission

_NUMBERS = """
  zero = f32[] constant(0)
  zeros = f32[4,4] broadcast(zero), dimensions={}
  half = f32[] constant(0.5)
  halves = f32[4,4] broadcast(half), dimensions={}
"""
_BIASED = """
  biases = f32[4,4] broadcast(bias), dimensions={1}
  biased = f32[4,4] add(p, biases)
  relu = f32[4,4] maximum(biased, zeros)
"""
_WIDE = """
  all = f32[4,8] broadcast(wide), dimensions={1}
  scaled = f32[4,8] multiply(pair, all)
  ROOT out = f32[4,8] add(scaled, all)
"""
FUSIONS = {
    "biased": (1, f"{_BIASED} ROOT out = f32[4,4] add(p, biases)"),
    "dense": (1, f"{_BIASED} ROOT out = f32[4,4] maximum(biased, zeros)"),
    "active": (1, "ROOT out = f32[4,4] tanh(p)"),
    "residual": (2, "ROOT out = f32[4,4] add(p, q)"),
    "again": (2, f"{_BIASED} ROOT out = f32[4,4] add(q, relu)"),
    "both": (
        2,
        f"{_BIASED} scaled = f32[4,4] multiply(q, biases) ROOT out = f32[4,4] add(scaled, biased)",
    ),
    "halved": (1, "ROOT out = f32[4,4] multiply(p, halves)"),
    "beside": (2, f"{_BIASED} ROOT out = f32[4,8] concatenate(relu, q), dimensions={{1}}"),
    "three": (2, f"{_BIASED} ROOT out = f32[4,12] concatenate(p, q, relu), dimensions={{1}}"),
    "normed": (
        1,
        f"{_BIASED} scaled = f32[4,4] multiply(relu, biases) ROOT out = f32[4,4] add(scaled, biases)",
    ),
    "scaled": (
        2,
        f"{_BIASED} pair = f32[4,8] concatenate(relu, q), dimensions={{1}} {_WIDE}",
    ),
}
"""How many values each reads besides a bias, and what it computes of them."""
WIDTHS = {"beside": 8, "three": 12, "scaled": 8}
POOL = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

pool {
  images = f32[1,2,2,4] parameter(0)
  start = f32[] parameter(1)
  ROOT out = f32[1,2,2,4] reduce-window(images, start), window={size=1x1x1x1}, to_apply=add
}
"""
HEAD = """
ENTRY main {
  arena = f32[512] parameter(0)
  x = f32[4,4] parameter(1)
  state = f32[4,4] parameter(2)
  bias = f32[4] parameter(3)
  w4 = f32[4,4] parameter(4)
  w8 = f32[8,4] parameter(5)
  w12 = f32[12,4] parameter(6)
  wide = f32[8] parameter(7)
  start = f32[] constant(0)
"""
GIVEN = ("x", "state")
ARENA, SLOT = 0, 64


def _computations() -> str:
    texts = [POOL]
    for name, (count, lines) in FUSIONS.items():
        names = [*"pq"[:count], "bias", "wide"]
        shapes = ["f32[4,4]"] * count + ["f32[4]", "f32[8]"]
        parameters = "\n".join(
            f"  {one} = {shape} parameter({n})"
            for n, (one, shape) in enumerate(zip(names, shapes, strict=True))
        )
        body = lines
        for part in ("ROOT", "scaled =", "pair ="):
            body = body.replace(f" {part}", f"\n  {part}")
        texts.append(f"{name} {{\n{parameters}{_NUMBERS}\n  {body}\n}}")
    return "\n\n".join(texts)


COMPUTATIONS = _computations()


@dataclass
class Maker:
    """Makes instructions, and memory for their values where nothing else is that is still read."""

    random: Random
    lines: list[str] = field(default_factory=list)
    widths: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GIVEN, 4))
    """Of all that may be read."""
    names: list[str] = field(default_factory=list)
    """Of values that have memory of their own."""
    reads: list[tuple[str, ...]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    places: dict[str, Slice] = field(default_factory=dict)

    def add(self) -> None:
        """Adds an instruction, or some that belong together."""
        last = [*self.widths][-1]
        kind = self.random.choice([*["dot"] * 6, "pool", "negate", "pooled", *FUSIONS])
        if self.widths[last] > 4:
            self.emit("dot", last)
        elif kind == "pooled":
            # What a pooling reads, beside a product of what it computes.
            values = self.emit("dense", self.emit("dot", self.read()))
            product = self.emit("dot", self.emit("pool", values))
            self.emit(self.random.choice([*WIDTHS]), product, values)
        else:
            count, _ = FUSIONS.get(kind, (1, ""))
            self.emit(kind, *(self.read() for _ in range(count)))

    def emit(self, kind: str, *read: str) -> str:
        """Adds an instruction; returns its name."""
        name = f"v{len(self.names)}"
        width, arguments = WIDTHS.get(kind, 4), ", ".join(read)
        shape = f"f32[4,{width}]"
        match kind:
            case "dot":
                axes = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
                text = f"{shape} dot({arguments}, w{self.widths[read[0]]}), {axes}"
            case "negate":
                text = f"{shape} negate({arguments})"
            case "pool":
                self.lines.append(f"  {name}i = f32[1,2,2,4] bitcast({arguments})")
                text = f"f32[1,2,2,4] fusion({name}i, start), kind=kLoop, calls=pool"
            case _:
                text = f"{shape} fusion({arguments}, bias, wide), kind=kLoop, calls={kind}"
        self.names.append(name)
        self.reads.append(tuple(one.removesuffix("m") for one in read))
        self.kinds.append(kind)
        self.lines.append(f"  {name} = {text}")
        if kind == "pool":
            self.lines.append(f"  {name}m = {shape} bitcast({name})")
            name += "m"
        self.widths[name] = width
        return name

    def read(self) -> str:
        """A value; the last ones are the likeliest."""
        known = [name for name, width in self.widths.items() if width == 4]
        return self.random.choice([*known[-2:] * 3, *known])

    def place(self, results: Sequence[str]) -> None:
        """Gives all values places in the arena."""
        ends = {name: number for number, name in enumerate(self.names)}
        ends |= {one: n for n, read in enumerate(self.reads) for one in read if one in ends}
        ends |= dict.fromkeys(results, len(self.names))
        for number, name in enumerate(self.names):
            size = 16 * self.widths.get(name, 4)
            live = [self.places[one] for one in self.places if ends[one] >= number]
            dying = [one for one in self.reads[number] if ends.get(one) == number]
            is_elementwise = self.kinds[number] not in ("dot", "pool", *WIDTHS)
            # In the place of what nobody else reads.
            if is_elementwise and dying and self.random.random() < 0.5:
                self.places[name] = self.places[dying[0]]
                continue
            offset = SLOT * self.random.randint(0, 5)
            while any(offset < p.offset + p.size and p.offset < offset + size for p in live):
                offset += SLOT
            self.places[name] = Slice(allocation=ARENA, offset=offset, size=size)


def made(seed: int) -> Graph:
    """Products and kernels in the memory that XLA might give them, perhaps in a loop with state."""
    random = Random(seed)
    maker = Maker(random)
    for _ in range(random.randint(2, 12)):
        maker.add()
    *others, last = maker.names
    results = [last, *(name for name in others if random.random() < 0.1)]
    maker.place(results)
    at: dict[str, str | Slice] = dict(maker.places)
    loops = random.random() < 0.5
    reads_state = "state" in maker.reads[-1]
    may_be_over = not reads_state or maker.kinds[-1] not in ("dot", "pool", *WIDTHS)
    if loops and may_be_over and maker.widths.get(last) == 4 and random.random() < 0.5:
        at[last] = "state"
    text = "\n".join(
        [COMPUTATIONS, HEAD, *maker.lines, f"  ROOT end = (f32[4,4]) tuple({last})", "}"]
    )
    return Emission(text, at=at).graph(results, loops=loops, arena="temporary")


@given(st.integers(0, 2**32))
@example(1949)  # tanh, and its half
def test_products_compute_what_followed_them(seed: int) -> None:
    graph = made(seed)
    values = np.random.default_rng(3)
    contents = {
        a.index: np.zeros(a.size // 4, np.float32).tobytes()
        if a.kind == "constant"
        else values.standard_normal(a.size // 4).astype(np.float32).tobytes()
        for a in graph.allocations
        if a.kind != "temporary"
    }
    before = graph_text(graph)
    expected = run_graph(graph, contents)
    for one in PIPELINE:
        one.run(graph)
        check(graph)
        assert run_graph(graph, contents) == expected, f"{before}\n{one.name}: {graph_text(graph)}"
    steps, allocations = assign(graph)
    places = [place for _, place in graph.results]
    found = run_steps(steps, allocations, contents, places, graph.module)
    assert found == expected, f"{before}\n{graph_text(graph)}"
    verify(
        Program(triple="", cpu="", allocations=allocations, parameters=(), results=(), steps=steps)
    )
