"""Makes steps of thunks: the same operations, with their operands as views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ....dtypes import ElementType
from ....program import expr, ops
from ....program.arrays import Slice
from ....program.steps import Step, numbered
from ....program.view import View
from ..covering import CoveringStep
from . import thunks as t
from .elementwise import Operation, Plane
from .masks import MaskOperation

_FLOAT = ElementType.FLOAT32
_EPILOGUE = ("bias", "scale", "shift")


def lower(thunks: Iterable[t.Thunk]) -> tuple[Step, ...]:
    """The steps of some thunks, in order."""
    return tuple(map(_lower, thunks))


def view_of(array: t.Array) -> View:
    """An array as a view."""
    return View(
        slice=array.slice,
        element_type=array.element_type,
        shape=array.shape,
        strides=array.strides,
    )


def _lower(thunk: t.Thunk) -> Step:
    step = _LOWER[type(thunk)](thunk)
    # Loops and branches have the operations of the steps in them.
    operations = 0 if step.regions else thunk.operations
    step = step.model_copy(update={"operations": operations, "origin": thunk.origin})
    return CoveringStep.of(step, thunk.covers) if thunk.covers else step


def _floats(part: Slice, *shape: int) -> View:
    return View.dense(part, _FLOAT, shape)


def _kernel(kernel: t.Kernel) -> Step:
    return Step(
        op=ops.Kernel(symbol=kernel.symbol, workgroups=kernel.workgroups),
        inputs=numbered("argument", [View.of_bytes(part) for part in kernel.arguments]),
        outputs=numbered("result", [View.of_bytes(part) for part in kernel.results]),
    )


# --- products -----------------------------------------------------------------------------------------


def _dot(dot: t.Dot) -> Step:
    op = ops.Dot(
        lhs_batch=dot.lhs_batch,
        rhs_batch=dot.rhs_batch,
        lhs_contracting=dot.lhs_contracting,
        rhs_contracting=dot.rhs_contracting,
        epilogue=_epilogue(dot),
    )
    factors = {"lhs": view_of(dot.lhs), "rhs": view_of(dot.rhs)}
    return Step(op=op, inputs={**factors, **_operands(dot)}, outputs=_outputs(dot))


def _convolution(convolution: t.Convolution) -> Step:
    factors = {"input": view_of(convolution.input), "kernel": view_of(convolution.kernel)}
    return Step(
        op=_convolution_op(convolution),
        inputs={**factors, **_operands(convolution)},
        outputs=_outputs(convolution),
    )


def _convolution_op(convolution: t.Convolution) -> ops.Convolution:
    return ops.Convolution(
        input_axes=convolution.input_axes,
        kernel_axes=convolution.kernel_axes,
        output_axes=convolution.output_axes,
        windows=convolution.windows,
        feature_groups=convolution.feature_groups,
        epilogue=_epilogue(convolution),
    )


def _epilogue(product: t.Product) -> ops.Epilogue | None:
    epilogue = product.epilogue
    if epilogue is None:
        return None
    return ops.Epilogue(low=epilogue.low, high=epilogue.high, activation=epilogue.activation)


def _operands(product: t.Product) -> dict[str, View]:
    """The operands of a product's epilogue, by role."""
    epilogue, out = product.epilogue, product.arrays[-1]
    if epilogue is None:
        return {}
    operands = {}
    for role in _EPILOGUE:
        part: Slice | None = getattr(epilogue, role)
        if part is not None:
            columns = part.size // out.element_type.item_bytes
            operands[role] = View.dense(part, out.element_type, (columns,))
    if epilogue.addend is not None:
        operands["addend"] = view_of(out).model_copy(update={"slice": epilogue.addend})
    return operands


def _outputs(product: t.Product) -> dict[str, View]:
    """The result of a product, and the memory for its sums if an epilogue follows."""
    out = view_of(product.arrays[-1])
    if product.epilogue is None:
        return {"out": out}
    return {
        "out": out.model_copy(update={"slice": product.epilogue.result}),
        "accumulator": out,
    }


# --- reductions ---------------------------------------------------------------------------------------


def _pooling(pool: t.Pooling) -> Step:
    output = _floats(pool.output, pool.batch, *pool.out_size, pool.features)
    return Step(op=_pooling_op(pool), inputs={"input": _images(pool)}, outputs={"output": output})


def _pooling_op(pool: t.Pooling) -> ops.Pooling:
    return ops.Pooling(
        reducer=pool.reducer,
        initial=pool.initial,
        window=pool.window,
        stride=pool.stride,
        pad_low=pool.pad_low,
        padding=pool.padding,
        in_factor=pool.in_factor,
        factor=pool.factor,
    )


def _images(pool: t.Pooling) -> View:
    """The image that a pooling reads, as a view."""
    rows, columns = pool.in_size
    pixel = pool.in_step or pool.features
    return View(
        slice=pool.input,
        element_type=_FLOAT,
        shape=(pool.batch, rows, columns, pool.features),
        strides=(rows * columns * pixel, columns * pixel, pixel, 1),
    )


def _row_reduction(reduction: t.RowReduction) -> Step:
    return Step(
        op=ops.RowReduction(
            reducer=reduction.reducer,
            initial=reduction.initial,
            window=reduction.window,
            pad_low=reduction.pad_low,
        ),
        inputs={"input": _floats(reduction.input, reduction.rows, reduction.size)},
        outputs={"output": _floats(reduction.output, reduction.rows, reduction.windows)},
    )


# --- attention ----------------------------------------------------------------------------------------


def _mask(mask: t.Mask) -> Step:
    reads: list[View] = []

    def operation(one: MaskOperation) -> expr.Operation:
        fields: dict[str, Any] = {"opcode": one.opcode, "element_type": one.element_type}
        if one.opcode == "read":
            read = mask.code.reads[one.number]
            fields["input"] = len(reads)
            reads.append(_heads(read.slice, read.element_type, mask.extents, one.start, one.steps))
        elif one.opcode == "index":
            fields |= {"start": one.start, "strides": one.steps}
        return expr.Operation(operands=one.operands, value=one.value, **fields)

    operations = tuple(map(operation, mask.code.operations))
    code = expr.Expression(operations=operations, results=(len(operations) - 1,))
    element = ElementType.INT32 if code.is_condition else _FLOAT
    _, heads, queries, _ = mask.extents
    steps = (heads * queries * mask.step, queries * mask.step, mask.step, 1)
    return Step(
        op=ops.Mask(code=code),
        inputs=numbered("read", reads),
        outputs={"output": _heads(mask.output, element, mask.extents, 0, steps)},
    )


def _heads(
    part: Slice,
    element: ElementType,
    shape: tuple[int, ...],
    start: int,
    steps: tuple[int, int, int, int],
) -> View:
    return View(slice=part, element_type=element, shape=shape, strides=steps, start=start)


def _attention(attention: t.Attention) -> Step:
    queries, keys = attention.queries, attention.keys
    extents = {
        "query": (queries, attention.depth),
        "key": (keys, attention.depth),
        "value": (keys, attention.features),
        "added": (queries, keys),
        "kept": (queries, keys),
        "output": (queries, attention.features),
    }
    views = {}
    for role, matrix in extents.items():
        heads: t.Heads | None = getattr(attention, role)
        if heads is not None:
            element = ElementType.INT32 if role == "kept" else _FLOAT
            shape = (*attention.heads, *matrix)
            views[role] = _heads(heads.slice, element, shape, heads.start, heads.steps)
    output = views.pop("output")
    return Step(
        op=ops.Attention(scale=attention.scale, replacement=attention.replacement),
        inputs=views,
        outputs={"output": output},
    )


# --- element by element -------------------------------------------------------------------------------


def _elementwise(step: t.Elementwise) -> Step:
    shape = (step.rows, step.columns)
    reads = [_plane(plane, _FLOAT, shape) for plane in step.reads]
    # A condition is the same in all columns.
    masks = [_plane(plane, ElementType.BOOL, shape) for plane in step.masks]
    inputs = [*reads, *masks]
    code = [
        expr.Operation(opcode="read", element_type=view.element_type, input=number)
        for number, view in enumerate(inputs)
    ]

    def number(value: int) -> int:
        return value if value < len(reads) else value + len(masks)

    def operation(one: Operation) -> expr.Operation:
        condition = () if one.mask is None else (len(reads) + one.mask,)
        operands = (*condition, *map(number, one.operands))
        value = one.value if one.opcode == "constant" else None
        return expr.Operation(opcode=one.opcode, operands=operands, value=value)

    operations = (*code, *map(operation, step.code))
    results = tuple(map(number, step.stored))
    return Step(
        op=ops.Elementwise(code=expr.Expression(operations=operations, results=results)),
        inputs=numbered("read", inputs),
        outputs=numbered("write", [_plane(plane, _FLOAT, shape) for plane in step.writes]),
    )


def _plane(plane: Plane, element: ElementType, shape: tuple[int, int]) -> View:
    return View(
        slice=plane.slice,
        element_type=element,
        shape=shape,
        strides=(plane.row_step, 0 if element == ElementType.BOOL else 1),
        start=plane.start,
    )


def _copy(copy: t.Copy) -> Step:
    return Step(
        op=ops.Copy(),
        inputs={"source": View.of_bytes(copy.source)},
        outputs={"destination": View.of_bytes(copy.destination)},
    )


def _copy_rows(copy: t.CopyRows) -> Step:
    source = _floats(copy.source, copy.rows, copy.columns)
    update = {"slice": copy.destination, "strides": (copy.step, 1)}
    return Step(
        op=ops.Copy(),
        inputs={"source": source},
        outputs={"destination": source.model_copy(update=update)},
    )


# --- tables -------------------------------------------------------------------------------------------


def _lookup(lookup: t.Lookup) -> Step:
    output = _rows(lookup.output, lookup.count, lookup.row_bytes)
    return Step(op=ops.Lookup(wrap=lookup.wrap), inputs=_tables(lookup), outputs={"output": output})


def _tables(lookup: t.Lookup) -> dict[str, View]:
    return {
        "table": _rows(lookup.table, lookup.rows, lookup.row_bytes),
        "indices": View.dense(lookup.indices, lookup.index_type, (lookup.count,)),
    }


def _rows(part: Slice, rows: int, row_bytes: int) -> View:
    return View.dense(part, ElementType.UINT8, (rows, row_bytes))


# --- control ------------------------------------------------------------------------------------------


def _while(loop: t.While) -> Step:
    inputs = {}
    if loop.condition_value is not None:
        inputs["condition"] = View.dense(loop.condition_value, ElementType.BOOL, ())
    return Step(
        op=ops.While(trip_count=loop.trip_count),
        inputs=inputs,
        regions=(lower(loop.condition), lower(loop.body)),
    )


def _conditional(choice: t.Conditional) -> Step:
    index = choice.index
    element = ElementType.BOOL if index.size == 1 else ElementType.INT32
    return Step(
        op=ops.Conditional(),
        inputs={"index": View.dense(index, element, ())},
        regions=tuple(map(lower, choice.branches)),
    )


# --- others -------------------------------------------------------------------------------------------


def _sort(sort: t.Sort) -> Step:
    operands = numbered("operand", [view_of(operand) for operand in sort.operands])
    op = ops.Sort(comparator=sort.comparator, axis=sort.axis)
    return Step(op=op, inputs=operands, outputs=operands)


def _top_k(top: t.TopK) -> Step:
    indices = View.dense(top.indices, ElementType.INT32, (top.batch, top.k))
    return Step(
        op=ops.TopK(),
        inputs={"values": _floats(top.values, top.batch, top.size)},
        outputs={"output": _floats(top.output, top.batch, top.k), "indices": indices},
    )


def _fft(fft: t.Fft) -> Step:
    return Step(
        op=ops.Fft(fft_type=fft.fft_type, lengths=fft.lengths),
        inputs={"input": view_of(fft.input)},
        outputs={"output": view_of(fft.output)},
    )


def _random_state(draw: t.RandomState) -> Step:
    return Step(op=ops.RandomState(delta=draw.delta), outputs={"state": View.of_bytes(draw.state)})


_LOWER: Mapping[type[Any], Callable[[Any], Step]] = {
    t.Kernel: _kernel,
    t.Dot: _dot,
    t.Convolution: _convolution,
    t.Pooling: _pooling,
    t.RowReduction: _row_reduction,
    t.Mask: _mask,
    t.Attention: _attention,
    t.Elementwise: _elementwise,
    t.Copy: _copy,
    t.CopyRows: _copy_rows,
    t.Lookup: _lookup,
    t.While: _while,
    t.Conditional: _conditional,
    t.Sort: _sort,
    t.TopK: _top_k,
    t.Fft: _fft,
    t.RandomState: _random_state,
}
