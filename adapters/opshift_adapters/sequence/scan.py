# SPDX-License-Identifier: Apache-2.0
"""Scan, which has a batch axis only at opset 8 and becomes a Loop below opset 8."""

from collections.abc import Mapping, Sequence
from typing import Any

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    alternative,
    boundary,
    flaw,
    illegal,
)

from opshift_adapters._lib.blocks import arange, size_of
from opshift_adapters.sequence.control import declare_types, known_of, name_sizes, through_float


@illegal("Scan")
def scans_what_it_has(given: Mapping[str, Any], inputs: int, outputs: int) -> str | None:
    """`num_scan_inputs` of Scan must be positive and at most the number of inputs."""
    scanned = given.get("num_scan_inputs")
    wrong = isinstance(scanned, int) and not 0 < scanned <= inputs
    return f"num_scan_inputs is {scanned}, but the node has {inputs} inputs" if wrong else None


@flaw("Scan")
def lists_of_other_counts(node: Node) -> str | None:
    """Scan needs one axis and one direction for each scan input and each scan output."""
    scanned, given = node.int("num_scan_inputs"), [value for value in node.inputs if value]
    stacked = len(node.results("body")) - (len(given) - scanned)
    counts = {"directions": scanned, "scan_input_axes": scanned, "scan_input_directions": scanned}
    counts |= {"scan_output_axes": stacked, "scan_output_directions": stacked}
    lists = {name: node.ints(name) for name in counts if name in node.attributes}
    for name, found in lists.items():
        if found and 0 <= counts[name] != len(found):  # negative if the body has too few outputs
            return f"{name} has {len(found)} numbers for {counts[name]} values"
    return _axis_beyond(node, lists, given[len(given) - scanned :])


def _axis_beyond(
    node: Node, lists: Mapping[str, list[int]], values: list[Value]
) -> str | None:  # pragma: no cover: only illegal nodes reach this
    """Checks that the axes of a Scan exist, and are not negative before opset 11."""
    old = node.schema is not None and node.schema.since < 11
    for name in ("scan_input_axes", "scan_output_axes"):
        if old and (negative := [axis for axis in lists.get(name, ()) if axis < 0]):
            return f"{name} has the axis {negative[0]}, but must not be negative before opset 11"
    for axis, value in zip(lists.get("scan_input_axes", ()), values, strict=False):
        rank = value.rank_or_none
        if rank is not None and not -rank <= axis < rank:
            return f"scan_input_axes has the axis {axis}, but the input has {rank} axes"
    return None


TYPES_25 = boundary(25, "Scan:d8a6e6")
TYPES_24 = boundary(24, "Scan:bc86df")
TYPES_23 = boundary(23, "Scan:34480e")
TYPES_21 = boundary(21, "Scan:c9c25e")
TYPES_19 = boundary(19, "Scan:78a9c0")
BFLOAT16_16 = boundary(16, "Scan:90a9ec", cast=through_float)
AXES_11 = boundary(11, "Scan:787e3b", directions="up")


@alternative("Scan", runtime="onnxruntime==0.4")
def with_declared_shapes(node: Node, op: Builder) -> Result:
    """Scan bodies get declared types and named sizes, because onnxruntime 0.4 needs both."""
    if node.schema is not None and node.schema.since < 9:
        return KEEP  # Scan of opset 8 has a batch axis and other inputs
    body, scanned = node.graph("body"), node.int("num_scan_inputs")
    given, results = known_of(node.inputs), known_of(node.results("body"))
    first = len(given) - scanned
    inside = [
        (kind, rank if i < first or rank is None else rank - 1)
        for i, (kind, rank) in enumerate(given)
    ]
    passing = (*body.input, *body.output)
    declare_types(passing, (*inside, *results))
    if not name_sizes(passing):
        return KEEP
    return op.same(node, outputs=node.n_outputs, body=body)


@adapter("Scan", 11, 10)
def scan_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, Scan has no negative axes; the rank is added to negative axes."""
    scanned = node.int("num_scan_inputs")
    changed: dict[str, Any] = {}
    for name, values, extra in (
        ("scan_input_axes", node.inputs[-scanned:], 0),
        ("scan_output_axes", node.results("body")[len(node.inputs) - scanned :], 1),
    ):
        axes = node.ints_or_none(name) or []
        if any(axis < 0 for axis in axes):
            pairs = zip(axes, values, strict=True)
            changed[name] = [a if v is None or a >= 0 else a + v.rank + extra for a, v in pairs]
    return op.same(node, **changed) if changed else KEEP


@adapter("Scan", 8, 9)
def scan_8_9(node: Node, op: Builder) -> Result:
    """Opset 9 removed the batch axis of Scan; a Scan over the batch contains a Scan per item."""
    lengths, values, scanned, directions = _read_scan_8(node)
    count = len(values) - scanned
    named: dict[str, Any] = {"num_scan_inputs": scanned, "scan_input_directions": directions}
    n_outputs = node.n_outputs
    body = node.graph("body")
    if lengths is None and _one_item(values):
        single = [op.Squeeze(value, axes=[0]) for value in values]
        found = op.Scan(*single, body=body, outputs=n_outputs, **named)
        return tuple(op.Unsqueeze(value, axes=[0]) for value in found)
    if lengths is None:
        outer = op.graph(
            lambda b, *item: b.Scan(*item, body=body, outputs=n_outputs, **named),
            *map(_item, values),
        )
        return op.Scan(*values, num_scan_inputs=len(values), body=outer, outputs=n_outputs)

    def step(b: Builder, length: Value, *rest: Value) -> tuple[Value, ...]:
        old, elements, time = rest[:count], rest[count:-1], rest[-1]
        new = b.inline(body, *old, *elements)
        lasts = b.Less(time, length)
        kept = [b.Where(lasts, a, z) for a, z in zip(new[:count], old, strict=True)]
        return (b.Identity(length), *kept, *new[count:])

    def item(b: Builder, length: Value, *parts: Value) -> tuple[Value, ...]:
        kinds = [_known(v) for v in parts[:count]] + [_item(v) for v in parts[count:]]
        inner = b.graph(step, (T.INT64, ()), *kinds, (T.INT64, ()))
        times = arange(b, size_of(b, parts[-1], 0))
        found = b.Scan(
            length, *parts, times, num_scan_inputs=scanned + 1, body=inner, outputs=n_outputs + 1
        )
        return found[1:]

    outer = op.graph(item, (T.INT64, ()), *map(_item, values))
    every = (lengths, *values)
    return op.Scan(*every, num_scan_inputs=len(every), body=outer, outputs=n_outputs)


def _read_scan_8(node: Node) -> tuple[Value | None, list[Value], int, list[int]]:
    lengths, *rest = node.inputs
    values = [value for value in rest if value is not None]
    scanned = node.int("num_scan_inputs")
    directions = node.ints_or_none("directions") or [0] * scanned
    if lengths is not None and any(directions):
        raise Refusal(
            Why.AMBIGUOUS,
            "no specification defines where a reversed Scan of a shorter sequence begins",
        )
    return lengths, values, scanned, directions


def _one_item(values: Sequence[Value]) -> bool:
    return any(value.dims_or_none is not None and value.dims[0] == 1 for value in values)


def _known(value: Value) -> tuple[int, Sequence[Any] | None]:
    return value.elem_type, value.dims_or_none


def _item(value: Value) -> tuple[int, Sequence[Any] | None]:
    """Returns the element type and the shape of one element along the first axis."""
    dims = value.dims_or_none
    return value.elem_type, None if dims is None else dims[1:]


@adapter("Scan", 9, 8)
def scan_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, Scan needs the batch as axis 0 and time as axis 1; a batch of 1 is added."""
    scanned = node.int("num_scan_inputs")
    values = [value for value in node.inputs if value is not None]
    count = len(values) - scanned
    axes = [0] * count + (node.ints_or_none("scan_input_axes") or [0] * scanned)
    batch = [
        op.Unsqueeze(_to_front(op, value, axis), axes=[0])
        for value, axis in zip(values, axes, strict=True)
    ]
    directions, body = node.ints_or_none("scan_input_directions"), node.graph("body")
    named: dict[str, Any] = {"num_scan_inputs": scanned, "directions": directions, "body": body}
    found = op.Scan(None, *batch, outputs=node.n_outputs, **named)
    back = node.ints_or_none("scan_output_directions") or [0] * len(found)
    out_axes = node.ints_or_none("scan_output_axes") or [0] * len(found)
    elements = node.results("body")
    results = []
    for i, value in enumerate(found):
        if i >= count and back[i - count]:
            value = _backwards(op, value, elements[i])
        value = op.Squeeze(value, axes=[0])
        if i >= count and out_axes[i - count]:
            order = list(range(1, elements[i].rank + 1))
            order.insert(out_axes[i - count], 0)
            value = op.Transpose(value, perm=order)
        results.append(value)
    return tuple(results)


def _to_front(op: Builder, value: Value, axis: int) -> Value:
    if axis == 0:
        return value
    order = list(range(value.rank))
    order.insert(0, order.pop(axis))
    return op.Transpose(value, perm=order)


def _backwards(op: Builder, value: Value, element: Value) -> Value:
    """Reverses values along the time axis, by a Scan in reverse direction."""
    body = op.graph(lambda b, x: b.Identity(x), _known(element))
    return op.Scan(None, value, num_scan_inputs=1, directions=[1], body=body, outputs=1)[0]


@adapter("Scan", 8, 7)
def scan_8_7(node: Node, op: Builder) -> Result:
    """Below opset 8, Scan is written as a Loop over the elements."""
    lengths, values, scanned, directions = _read_scan_8(node)
    count, n_outputs = len(values) - scanned, node.n_outputs
    body = node.graph("body")

    def over_time(b: Builder, parts: Sequence[Value], length: Value | None) -> tuple[Value, ...]:
        time = size_of(b, parts[-1], 0)

        def step(c: Builder, i: Value, *old: Value) -> tuple[Value, ...]:
            last = c.Sub(c.Sub(time, i), c.const(1)) if any(directions) else i
            elements = [
                c.Gather(part, last if back else i, axis=0)
                for part, back in zip(parts[count:], directions, strict=True)
            ]
            new = c.inline(body, *old, *elements)
            if length is None or not old:
                return new
            lasts = c.Less(c.Cast(i, to=T.DOUBLE), c.Cast(length, to=T.DOUBLE))
            kept = c.If(
                lasts,
                then_branch=c.graph(lambda d: tuple(d.Identity(v) for v in new[:count])),
                else_branch=c.graph(lambda d: tuple(d.Identity(v) for v in old)),
                outputs=count,
            )
            return (*kept, *new[count:])

        return _loop(b, time, step, parts[:count], n_outputs)

    if lengths is None and _one_item(values):
        found = over_time(op, [op.Squeeze(value, axes=[0]) for value in values], None)
        return tuple(op.Unsqueeze(value, axes=[0]) for value in found)

    def item(b: Builder, i: Value) -> tuple[Value, ...]:
        length = None if lengths is None else b.Gather(lengths, i, axis=0)
        return over_time(b, [b.Gather(value, i, axis=0) for value in values], length)

    return _loop(op, size_of(op, values[-1], 0), item, (), n_outputs)


def _loop(
    op: Builder, trips: Value, write: Any, states: Sequence[Value], outputs: int
) -> tuple[Value, ...]:
    """Writes a Loop that carries `states`, or an unused zero, because a Loop must carry a value."""
    idle = () if states else (op.const(0),)

    def step(b: Builder, i: Value, keep: Value, *old: Value) -> tuple[Value, ...]:
        new = write(b, i, *old[len(idle) :])
        return (b.Identity(keep), *(b.Identity(v) for v in old[: len(idle)]), *new)

    carried = (*idle, *states)
    body = op.graph(step, (T.INT64, ()), (T.BOOL, ()), *map(_known, carried))
    loop = op.Loop(trips, op.const(True, T.BOOL), *carried, body=body, outputs=outputs + len(idle))
    return loop[len(idle) :]
