"""Writes thunks as C++: a call for each of them, with loops and branches around the calls.

XLA's CPU backend compiles a module into thunks (xla/backends/cpu/runtime/thunk.h lists their kinds). Its
own runtime interprets them; here they become the body of one function for each variant. Shapes become
`constexpr` tables before the function, so the compiler knows the size of the kernels' scratch memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..errors import UnsupportedProgramError
from ..program.arrays import ALIGNMENT, overlap
from ..program.program import (
    Attention,
    Branches,
    Conditional,
    Convolution,
    Copy,
    CopyRows,
    Dot,
    Elementwise,
    EmbeddingBag,
    Fft,
    Kernel,
    Lookup,
    Mask,
    Pooling,
    Product,
    RandomState,
    RowReduction,
    Scaling,
    Sort,
    Strips,
    Thunk,
    TopK,
    While,
)
from ..program.spatial_axes import axes_in_use
from .cost import count_branches, count_parts, count_parts_of_steps
from .elementwise import elementwise_type
from .expressions import (
    braces,
    cpp_bool,
    cpp_type,
    epilogue_members,
    fft_type,
    heads_of,
    largest,
    operands_of,
    pointer,
    reducer,
)
from .masks import mask_type
from .panels import Weights, weights_of
from .scratch import Scratch
from .strides import sort_extents
from .tables import convolution_values, dot_values, fft_values, pooling_values

EVERY_USE = "every_use()"
"""In C++, the use of all kernels of matrix products."""

_INDENT = "  "


@dataclass(frozen=True)
class BranchFunction:
    """A function that runs one of several branches, by its number, in the same memory as the function that calls it."""

    name: str
    lines: tuple[str, ...]
    """Between its head, with the addresses of allocations, and its end."""


@dataclass
class ThunkWriter:
    """Writes the thunks of one variant, and collects the tables, headers and scratch memory that they need."""

    prefix: str
    """The prefix of the tables' names, different for every variant in a file."""
    tables: list[str] = field(default_factory=list)
    headers: set[str] = field(default_factory=set)
    scratch: Scratch = field(default_factory=Scratch)
    uses: dict[str, list[str]] = field(default_factory=dict)
    """C++ constant expressions for the kernels of matrix products that each step calls, by element type."""
    panels: frozenset[int] = frozenset()
    """The allocations of weights that are packed."""
    types: dict[str, str] = field(default_factory=dict)
    """The definitions of types that do not depend on the variant, by name."""
    random_states: int = 0
    """The number of thunks written so far that draw random numbers."""
    profiled: bool = False
    """Whether a call after each thunk adds up what it took; see `modelwheel.program.walk.leaves`."""
    loops: int = 0
    """The number of loops around the thunks that are written."""
    leaves: int = 0
    """The number of thunks written so far that have no others in them."""
    functions: list[BranchFunction] = field(default_factory=list)
    """What the calls need beside tables."""

    def write(self, thunks: Iterable[Thunk], depth: int = 1) -> list[str]:
        """Returns the lines for some thunks, in order."""
        lines: list[str] = []
        for thunk in thunks:
            lines.extend(_INDENT * depth + line for line in self._thunk(thunk))
            if self.profiled and not isinstance(thunk, While | Conditional | Branches):
                lines.append(f"{_INDENT * depth}end_of_step({self.leaves});")
                self.leaves += 1
        return lines

    def _thunk(self, thunk: Thunk) -> Iterator[str]:
        match thunk:
            case Kernel():
                yield self._kernel(thunk)
            case Dot():
                yield from self._dot(thunk)
            case Convolution():
                yield from self._convolution(thunk)
            case Strips():
                yield from self._strips(thunk)
            case Pooling():
                yield self._pooling(thunk)
            case RowReduction():
                yield self._row_reduction(thunk)
            case Scaling():
                yield self._scaling(thunk)
            case Mask():
                yield from self._mask(thunk)
            case Attention():
                yield self._attention(thunk)
            case Elementwise():
                yield from self._elementwise(thunk)
            case Lookup():
                yield self._lookup(thunk)
            case EmbeddingBag():
                yield self._embedding_bag(thunk)
            case Copy():
                destination, source = pointer(thunk.destination), pointer(thunk.source)
                yield f"std::memcpy({destination}, {source}, {thunk.source.size});"
            case CopyRows():
                yield self._copy_rows(thunk)
            case While():
                yield from self._while(thunk)
            case Conditional():
                yield from self._conditional(thunk)
            case Branches():
                yield from self._branches(thunk)
            case Sort():
                yield self._sort(thunk)
            case TopK():
                yield self._top_k(thunk)
            case Fft():
                yield self._fft(thunk)
            case RandomState():
                yield self._random_state(thunk)

    def _kernel(self, kernel: Kernel) -> str:
        arguments = ", ".join(
            f"{{{pointer(part)}, {part.size}}}" for part in kernel.arguments + kernel.results
        )
        # XLA divides large kernels into work groups for its thread pool; here they run one after the other.
        groups = "" if kernel.workgroups == (1, 1, 1) else f", {braces(kernel.workgroups)}"
        return f"if (!call({kernel.symbol}, {{{arguments}}}{groups})) return false;"

    def _product(self, kernel: str, types: str, table: str, product: Product) -> Iterator[str]:
        parts = self._parts(product)
        self.headers.add(f"{kernel}.h")
        needed = f"{kernel}_scratch<{types}>({table})"
        # The compiler chooses how a convolution is computed: the library has no other kernels for it.
        by = isinstance(product, Convolution)
        self._add_uses(product, types, table, parts)
        suffix = f"_by<{types}, method_of<{types}>({table})>" if by else f"<{types}>"
        call, kept = f"{kernel}{suffix}", f"{kernel}_sums<{types}>({table})"
        if parts > 1:
            self.scratch.parts.append(f"{kernel}_part_scratch<{types}>({table}, {parts})")
            call, table = f"{kernel}_in_parts{suffix}", f"{{threads, {parts}}}, {table}"
        epilogue = product.epilogue
        operands = operands_of(product.arrays)
        if epilogue is None:
            yield f"{call}({table}, {operands}, {self.scratch.take(needed)});"
            return
        lhs, rhs, out = product.arrays
        overlaps = overlap(epilogue.result, lhs.slice) or overlap(epilogue.result, rhs.slice)
        copied = 0
        yield "{"
        # XLA may put the result where lhs was. A copy of the smaller one saves a pass over the larger one.
        if lhs.slice.size < out.slice.size and not overlap(epilogue.result, rhs.slice) and overlaps:
            overlaps = False
            copied = -(-lhs.slice.size // ALIGNMENT) * ALIGNMENT
            operands = ", ".join([f"as<const {cpp_type(lhs)}>(copy)", *operands.split(", ")[1:]])
        sums, result = pointer(out.slice), pointer(epilogue.result)
        if copied:
            yield f"{_INDENT}char *const copy = {self.scratch.take(f'{copied} + {needed}')};"
            yield f"{_INDENT}std::memcpy(copy, {pointer(lhs.slice)}, {lhs.slice.size});"
            scratch = f"copy + {copied}"
        elif epilogue.addend == out.slice:
            # Sums would replace what is added to them. Most kernels finish them without storing them before.
            yield f"{_INDENT}char *const kept = {self.scratch.take(f'{kept} + {needed}')};"
            yield f"{_INDENT}char *const sums = {kept} != 0 ? kept : {result};"
            scratch, sums = f"kept + {kept}", "sums"
            operands = ", ".join([*operands.split(", ")[:-1], f"as<{cpp_type(out)}>(sums)"])
        else:
            scratch = self.scratch.take(needed)
        values = epilogue_members(epilogue, cpp_type(out), (sums, result), overlaps=overlaps)
        yield f"{_INDENT}const Epilogue<{cpp_type(out)}> epilogue = {values};"
        yield f"{_INDENT}{call}({table}, {operands}, {scratch}, &epilogue);"
        yield "}"

    def _add_uses(self, product: Product, types: str, table: str, parts: int) -> None:
        if types not in ("float", "double"):
            return
        if isinstance(product, Convolution):
            self._use_all(types)
            return
        # A result may replace what is added to it.
        added = cpp_bool(product.epilogue is not None and product.epilogue.addend is not None)
        use = f"dot_uses<{types}>({table}, {added})"
        if parts > 1:
            use = f"dot_part_uses<{types}>({table}, {parts}, {added})"
        self.uses.setdefault(types, []).append(use)

    def _use_all(self, element: str) -> None:
        """For a step whose products are known only when it runs."""
        self.uses.setdefault(element, []).append(EVERY_USE)

    def _parts(self, thunk: Thunk) -> int:
        """The most parts in which threads may share a step."""
        parts = count_parts(thunk, in_loop=self.loops > 0)
        if parts > 1:
            self.headers.add("parts.h")
        return parts

    def _dot(self, dot: Dot) -> Iterator[str]:
        lhs, rhs, out = (cpp_type(array) for array in (dot.lhs, dot.rhs, dot.out))
        # The result may have another type than the factors (float for bfloat16), but the kernels have one
        # type for both.
        if lhs != rhs:
            raise UnsupportedProgramError(f"a matrix product of {lhs} by {rhs} is not supported")
        types = lhs if lhs == out else f"{lhs}, {out}"
        table = self._table("Dot", dot_values(dot, self._packed(dot)))
        return self._product("dot", types, table, dot)

    def _convolution(self, c: Convolution) -> Iterator[str]:
        values = convolution_values(c, axes_in_use([c]), self._packed(c))
        table = self._table("Convolution", values)
        return self._product("convolution", cpp_type(c.output), table, c)

    def _strips(self, strips: Strips) -> Iterator[str]:
        axes = axes_in_use(strips.layers)
        tables = [
            braces(convolution_values(layer, axes, self._packed(layer))) for layer in strips.layers
        ]
        table = self._table("Convolution", tables, array=True)
        first, last = strips.layers[0], strips.layers[-1]
        element = cpp_type(last.output)
        scratch = self._needs("strips.h", f"strips_scratch<{element}>({table})")
        self._use_all(element)
        call, shared = "strips", ""
        if (parts := self._parts(strips)) > 1:
            self.headers.add("strip_parts.h")
            self.scratch.parts.append(f"strips_scratch<{element}>({table})")
            call, shared = "strips_in_parts", f"{{threads, {parts}}}, "
        layers = []
        yield "{"
        for number, layer in enumerate(strips.layers):
            epilogue = "nullptr"
            if layer.epilogue is not None:
                place = ("nullptr", "nullptr")
                if layer is last:
                    place = (pointer(layer.output.slice), pointer(layer.epilogue.result))
                values = epilogue_members(layer.epilogue, element, place, overlaps=False)
                yield f"{_INDENT}const Epilogue<{element}> epilogue{number} = {values};"
                epilogue = f"&epilogue{number}"
            layers.append(braces([f"as<const {element}>({pointer(layer.kernel.slice)})", epilogue]))
        yield f"{_INDENT}const StripLayer<{element}> layers[] = {braces(layers)};"
        operands = operands_of([first.input, last.output])
        yield f"{_INDENT}{call}({shared}{table}, layers, {operands}, {scratch});"
        yield "}"

    def _packed(self, product: Product) -> Weights | None:
        weights = weights_of(product)
        return weights if weights and weights.slice.allocation in self.panels else None

    def _pooling(self, pool: Pooling) -> str:
        table = self._table("Pooling", pooling_values(pool))
        self.headers.add("pooling.h")
        source, target = pointer(pool.input), pointer(pool.output)
        operands = f"{table}, as<const float>({source}), as<float>({target})"
        if (parts := self._parts(pool)) > 1:
            self.scratch.parts.append("0")
            return f"pooling_in_parts<float>({{threads, {parts}}}, {operands});"
        return f"pooling<float>({operands});"

    def _copy_rows(self, copy: CopyRows) -> str:
        table = self._table("CopyRows", [copy.rows, copy.columns, copy.step])
        self.headers.add("copy_rows.h")
        source, target = pointer(copy.source), pointer(copy.destination)
        return f"copy_rows<float>({table}, as<const float>({source}), as<float>({target}));"

    def _row_reduction(self, r: RowReduction) -> str:
        values = [*reducer(r), r.rows, r.size, r.windows, r.window, r.pad_low]
        table = self._table("RowReduction", values)
        self.headers.add("row_reduction.h")
        source, target = pointer(r.input), pointer(r.output)
        return f"row_reduction<float>({table}, as<const float>({source}), as<float>({target}));"

    def _scaling(self, s: Scaling) -> str:
        table = self._table("Scaling", [s.batch, s.rows, s.features])
        self.headers.add("scaling.h")
        source, factors, target = pointer(s.input), pointer(s.factors), pointer(s.output)
        operands = (
            f"{table}, as<const float>({source}), as<const float>({factors}), as<float>({target})"
        )
        if (parts := self._parts(s)) > 1:
            self.scratch.parts.append("0")
            return f"scaling_in_parts<float>({{threads, {parts}}}, {operands});"
        return f"scaling<float>({operands});"

    def _attention(self, a: Attention) -> str:
        parts = (a.query, a.key, a.value, a.output)
        sizes = [*a.heads, a.queries, a.keys, a.depth, a.features, a.scale]
        strides = [braces(part.steps) for part in parts]
        if a.masks:
            none = "{0, 0, 0, 0}"
            strides += [none if m is None else braces(m.steps) for m in (a.added, a.kept)]
            other = "-__builtin_inf()" if a.replacement is None else repr(a.replacement)
            strides.append(other)
        table = self._table("Attention", [*sizes, *strides])
        scratch = self._needs("attention.h", f"attention_scratch<float>({table})")
        self._use_all("float")
        *read, written = (f"float>({pointer(part.slice)}) + {part.start}" for part in parts)
        operands = ", ".join([*(f"as<const {one}" for one in read), f"as<{written}", scratch])
        if a.masks:
            masks = ((a.added, "float"), (a.kept, "std::int32_t"))
            operands += f", {braces(heads_of(*mask) for mask in masks)}"
        if (count := self._parts(a)) > 1:
            self.scratch.parts.append(f"attention_part_scratch<float>({table}, {count})")
            return f"attention_in_parts<float>({{threads, {count}}}, {table}, {operands});"
        return f"attention<float>({table}, {operands});"

    def _mask(self, m: Mask) -> Iterator[str]:
        name, self.types[name] = mask_type(m.code)
        self.headers.add("mask.h")
        reads = [pointer(read.slice) for read in m.code.reads]
        # C++ has no empty arrays.
        yield f"{{ const void *const in[] = {braces(reads or ['nullptr'])};"
        result = "std::int32_t" if m.code.is_condition else "float"
        table = self._table("MaskShape", [*m.extents, m.step])
        yield f"{_INDENT}compute_mask<{name}>({table}, in, as<{result}>({pointer(m.output)})); }}"

    def _elementwise(self, step: Elementwise) -> Iterator[str]:
        name, self.types[name] = elementwise_type(step)
        self.headers.add("elementwise.h")
        yield "{"
        planes = {
            "reads": ("const float", step.reads),
            "masks": ("const char", step.masks),
            "writes": ("float", step.writes),
        }
        for kind, (element, found) in planes.items():
            rows = [
                f"{{as<{element}>({pointer(p.slice)}) + {p.start}, {p.row_step}}}" for p in found
            ]
            # C++ has no empty arrays.
            yield f"{_INDENT}const Plane<{element}> {kind}[] = {braces(rows or ['{nullptr, 0}'])};"
        yield f"{_INDENT}elementwise<{name}>({step.rows}, reads, masks, writes);"
        yield "}"

    def _lookup_operands(self, l: Lookup) -> tuple[str, str]:
        """The table of a look-up, and the memory that it reads."""
        table = self._table("Lookup", [l.count, l.rows, l.row_bytes, l.wrap])
        indices = f"as<const {l.index_type.kernel_type}>({pointer(l.indices)})"
        return table, f"{pointer(l.table)}, {indices}"

    def _lookup(self, l: Lookup) -> str:
        table, operands = self._lookup_operands(l)
        self.headers.add("lookup.h")
        return f"lookup({table}, {operands}, {pointer(l.output)});"

    def _embedding_bag(self, bag: EmbeddingBag) -> str:
        table, operands = self._lookup_operands(bag.lookup)
        pooling = self._table("Pooling", pooling_values(bag.pooling))
        self.headers.add("embedding_bag.h")
        target = f"as<float>({pointer(bag.pooling.output)})"
        return f"embedding_bag<float>({table}, {pooling}, {operands}, {target});"

    def _while(self, loop: While) -> Iterator[str]:
        self.loops += 1
        if loop.condition_value is None:
            # A known trip count: XLA does not evaluate the condition either.
            yield f"for (std::int64_t trip = 0; trip < {loop.trip_count}; ++trip) {{"
        else:
            yield "for (;;) {"
            yield from self.write(loop.condition)
            yield f"{_INDENT}if (*({pointer(loop.condition_value)}) == 0) break;"
        yield from self.write(loop.body)
        yield "}"
        self.loops -= 1

    def _conditional(self, choice: Conditional) -> Iterator[str]:
        index, count = choice.index, len(choice.branches)
        yield f"switch (branch_of({pointer(index)}, {index.size}, {count})) {{"
        for number, branch in enumerate(choice.branches):
            yield f"{_INDENT}case {number}:"
            yield from self.write(branch, depth=2)
            yield f"{_INDENT * 2}break;"
        yield f"{_INDENT}default:"
        yield f"{_INDENT * 2}return false;"
        yield "}"

    def _branches(self, step: Branches) -> Iterator[str]:
        if (count := count_branches(step)) == 1:
            for branch in step.branches:
                yield from self.write(branch, depth=0)
            return
        self.headers.add("branches.h")
        name = f"branches_{self.prefix}_{len(self.functions)}"
        lines = [f"{_INDENT}switch (number) {{"]
        with self.scratch.of_branches() as sizes:
            for number, branch in enumerate(step.branches):
                last = number == count - 1
                lines.append(f"{_INDENT * 2}{'default' if last else f'case {number}'}:")
                if self.profiled:
                    lines.append(f"{_INDENT * 3}start_of_steps();")
                lines += self.write(branch, depth=3)
                lines.append(f"{_INDENT * 3}return true;")
        lines.append(f"{_INDENT}}}")
        self.functions.append(BranchFunction(name, tuple(lines)))
        parts = count_parts_of_steps(step)
        call = f"{name}(number, in, out, arena, own, memory)"
        one = f"[&](std::int64_t number, const Threads &own, char *memory) {{ return {call}; }}"
        scratch = self.scratch.take(largest(sizes))
        yield f"if (!run_branches({{threads, {count}}}, {parts}, {one}, {scratch})) return false;"

    def _sort(self, sort: Sort) -> str:
        # The comparator is machine code of the model and knows the element types; moving elements needs
        # their sizes only.
        outer, size, inner = sort_extents(sort)
        item_bytes = [operand.element_type.item_bytes for operand in sort.operands]
        table = self._table(
            "Sort",
            [outer, size, inner, len(item_bytes), braces(item_bytes)],
        )
        scratch = self._needs("sort.h", f"sort_scratch({table})")
        operands = braces([pointer(operand.slice) for operand in sort.operands])
        return f"sort({table}, {sort.comparator}, {operands}, {scratch});"

    def _top_k(self, top: TopK) -> str:
        table = self._table("TopK", [top.batch, top.size, top.k])
        scratch = self._needs("top_k.h", f"top_k_scratch({table})")
        return (
            f"top_k<float>({table}, as<const float>({pointer(top.values)}), "
            f"as<float>({pointer(top.output)}), as<std::int32_t>({pointer(top.indices)}), {scratch});"
        )

    def _fft(self, fft: Fft) -> str:
        element = fft_type(fft)
        table = self._table("Fft", fft_values(fft))
        scratch = self._needs("fft.h", f"fft_scratch<{element}>({table})")
        operands = f"{pointer(fft.input.slice)}, {pointer(fft.output.slice)}"
        return f"fft<{element}>({table}, {operands}, {scratch});"

    def _random_state(self, draw: RandomState) -> str:
        # Every thunk has a state of its own, as in XLA, where it is a member of the thunk
        # (RngGetAndUpdateStateThunk).
        number = self.random_states
        self.random_states += 1
        self.headers.add("rng.h")
        # The states are at the start of the arena; 16 is RANDOM_STATE_BYTES of memory.py.
        return f"get_and_update_state(arena + {number * 16}, {draw.delta}, {pointer(draw.state)});"

    def _table(self, type_name: str, values: Sequence[object], *, array: bool = False) -> str:
        name = f"{self.prefix}_{type_name.lower()}_{len(self.tables)}"
        extent = "[]" if array else ""
        self.tables.append(f"constexpr {type_name} {name}{extent} = {braces(values)};")
        return name

    def _needs(self, header: str, scratch: str) -> str:
        """Where a kernel of a header finds its scratch memory."""
        self.headers.add(header)
        return self.scratch.take(scratch)
