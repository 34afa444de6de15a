# SPDX-License-Identifier: Apache-2.0
"""Evaluates Constant, Identity, and operators with subgraphs (If, Loop, Scan, SequenceMap)."""

from typing import Any

import numpy as np

from opshift.protos import GraphProto, ValueInfoProto
from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.strict_schema import Call
from opshift.verify.oracle.values import OracleError, Value, dtype_of, tensor


@kernel("Constant")
def constant(call: Call) -> Value:
    """The attribute of a Constant determines the output type, so this kernel decodes each form."""
    forms = [name for name in call.attributes if name.startswith(("value", "sparse_value"))]
    if len(forms) != 1:
        raise OracleError(f"Constant needs one value attribute, {len(forms)} given")
    value = call[forms[0]]
    match forms[0]:
        case "value_float" | "value_floats":
            return np.array(value, dtype=np.float32)
        case "value_int" | "value_ints":
            return np.array(value, dtype=np.int64)
        case "value_string" | "value_strings":
            return np.array(value, dtype=object)
    return value


@kernel("Identity")
def identity(call: Call, value: Value) -> Value:
    """Identity accepts sequences and empty optionals, but onnx's reference rejects None."""
    return value


@kernel("If", scoped=True)
def if_(frame: Any, call: Call, condition: np.ndarray) -> tuple[Value, ...]:
    """The branches of an If may contain operators of any engine, so the interpreter runs them."""
    if condition.size != 1:
        raise OracleError("If: the condition is not a single value")
    if call.since < 11:
        for first, second in zip(
            call["then_branch"].output, call["else_branch"].output, strict=True
        ):
            if None not in (left := _dims(first), right := _dims(second)) and left != right:
                raise OracleError(
                    f"If-{call.since}: the branches have different shapes, {left} and {right}"
                )
    branch = call["then_branch"] if condition.item() else call["else_branch"]
    results = tuple(frame.subgraph(branch, []))
    if len(results) != len(call.node.output):
        raise OracleError(
            f"If: the branch has {len(results)} outputs, the node has {len(call.node.output)}"
        )
    return results


def _dims(info: ValueInfoProto) -> tuple[int, ...] | None:
    """Returns the declared shape of a value if all sizes are fixed, else None."""
    if not info.type.tensor_type.HasField("shape"):
        return None
    dims = info.type.tensor_type.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None


@kernel("Loop", scoped=True)
def loop(
    frame: Any,
    call: Call,
    trips: np.ndarray | None,
    condition: np.ndarray | None = None,
    *carried: Value,
) -> tuple[Value, ...]:
    """onnx's reference adds an axis to scan outputs that are scalars in each iteration of a Loop.

    The body may declare the iteration number and the condition as vectors of one element.
    """
    body: GraphProto = call["body"]
    number, keep = ((1,) * len(info.type.tensor_type.shape.dim) for info in body.input[:2])
    state = list(carried)
    collected: list[list[np.ndarray]] = [[] for _ in body.output[1 + len(state) :]]
    limit = None if trips is None else int(_one(trips))
    go = condition is None or bool(_one(condition))
    count = 0
    while go and (limit is None or count < limit):
        counters = np.full(number, count, dtype=np.int64), np.full(keep, condition is None or go)
        results = frame.subgraph(body, [*counters, *state])
        if condition is not None or limit is None:
            go = bool(_one(results[0]))
        elif not bool(_one(results[0])):
            go = False
        state = results[1 : 1 + len(state)]
        for stack, item in zip(collected, results[1 + len(state) :], strict=True):
            stack.append(item)
        count += 1
    scans = [
        _stack(items, body.output[1 + len(state) + place]) for place, items in enumerate(collected)
    ]
    return (*state, *scans)


def _one(value: np.ndarray) -> Any:
    if value.size != 1:
        raise OracleError("Loop: a trip count or condition is not a single value")
    return value.item()


def _stack(items: list[np.ndarray], info: ValueInfoProto, axis: int = 0) -> np.ndarray:
    if items:
        return np.stack(items, axis=axis)
    declared = info.type.tensor_type
    shape = [dim.dim_value for dim in declared.shape.dim]
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
    return np.zeros(shape, dtype=dtype_of(declared.elem_type))


@kernel("Scan", until=8, scoped=True)
def scan_batched(
    frame: Any, call: Call, lengths: np.ndarray | None, *values: np.ndarray
) -> tuple[Value, ...]:
    """In Scan-8, axis 0 is the batch and axis 1 is scanned, up to the given sequence lengths."""
    scanned = call["num_scan_inputs"]
    directions = call["directions"] or [0] * scanned
    batch = values[0].shape[0]
    if any(value.shape[0] != batch for value in values):
        raise OracleError("Scan-8: batch sizes differ")
    longest = values[-1].shape[1]
    if lengths is not None and any(directions):
        raise OracleError("Scan-8: sequence_lens with a reverse direction is undefined")
    per_item = []
    for item in range(batch):
        length = longest if lengths is None else int(lengths[item])
        rows = [np.asarray(value[item]) for value in values]
        states, scans = rows[: len(rows) - scanned], rows[len(rows) - scanned :]
        if any(scan.shape[0] != longest for scan in scans):
            raise OracleError("Scan-8: sequence lengths differ")
        cut = [scan[:length] for scan in scans]
        results = _scan(frame, call["body"], states, cut, directions)
        padded = [
            np.concatenate([r, np.zeros((longest - length, *r.shape[1:]), dtype=r.dtype)])
            for r in results[len(states) :]
        ]
        per_item.append([*results[: len(states)], *padded])
    return tuple(np.stack(column) for column in zip(*per_item, strict=True))


@kernel("Scan", since=9, scoped=True)
def scan(frame: Any, call: Call, *values: np.ndarray) -> tuple[Value, ...]:
    """onnx's reference supports only axis 0 and direction 0 of a Scan."""
    scanned = call["num_scan_inputs"]
    states, scans = list(values[: len(values) - scanned]), values[len(values) - scanned :]
    outputs = len(call["body"].output) - len(states)
    in_axes = call["scan_input_axes"] or [0] * scanned
    out_axes = call["scan_output_axes"] or [0] * outputs
    if call.since < 11 and min([*in_axes, *out_axes], default=0) < 0:
        raise OracleError("Scan-9: a negative axis is legal only from opset 11 on")
    moved = [np.moveaxis(value, axis, 0) for value, axis in zip(scans, in_axes, strict=True)]
    if len({value.shape[0] for value in moved}) != 1:
        raise OracleError("Scan: sequence lengths differ")
    directions = call["scan_input_directions"] or [0] * scanned
    results = _scan(frame, call["body"], states, moved, directions)
    finals, stacked = results[: len(states)], results[len(states) :]
    backwards = call["scan_output_directions"] or [0] * outputs
    for place, (axis, back) in enumerate(zip(out_axes, backwards, strict=True)):
        ordered = stacked[place][::-1] if back else stacked[place]
        stacked[place] = np.ascontiguousarray(np.moveaxis(ordered, 0, axis))
    return (*finals, *stacked)


def _scan(
    frame: Any,
    body: GraphProto,
    states: list[np.ndarray],
    scans: list[np.ndarray],
    directions: list[int],
) -> list[np.ndarray]:
    """Returns the final states and the stacked outputs of a scan over axis 0."""
    count = len(states)
    collected: list[list[np.ndarray]] = [[] for _ in body.output[count:]]
    for step in range(scans[0].shape[0]):
        picks = [-1 - step if back else step for back in directions]
        slices = [scan[pick] for scan, pick in zip(scans, picks, strict=True)]
        results = frame.subgraph(body, [*states, *(tensor(s) for s in slices)])
        for old, new in zip(states, results, strict=False):
            if old.shape != new.shape or old.dtype != new.dtype:
                raise OracleError("Scan: a state changed its type or shape")
        states = results[:count]
        for stack, item in zip(collected, results[count:], strict=True):
            stack.append(item)
    infos = body.output[count:]
    return [*states, *(_stack(items, info) for items, info in zip(collected, infos, strict=True))]


@kernel("SequenceMap", scoped=True)
def sequence_map(
    frame: Any, call: Call, first: list[Value], *more: Value
) -> tuple[list[Value], ...]:
    """The body of a SequenceMap may contain operators of any engine, so the interpreter runs it."""
    outputs: list[list[Value]] = [[] for _ in call.node.output]
    for index, item in enumerate(first):
        elements = [value[index] if isinstance(value, list) else value for value in more]
        results = frame.subgraph(call["body"], [item, *elements])
        for sequence, result in zip(outputs, results, strict=True):
            sequence.append(result)
    return tuple(outputs)
