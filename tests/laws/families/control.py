# SPDX-License-Identifier: Apache-2.0
"""Bodies: If, Loop, Scan, and maps over sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import GraphProto, ValueInfoProto, helper, numpy_helper

from families.making import Family, Making, rows


def _value(name: str, elem: int, shape: Any = None) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, elem, shape)


def _body(name: str, nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> GraphProto:
    return helper.make_graph(nodes, name, inputs, outputs)


def _step(m: Making, source: list[str], result: str, suffix: str) -> list[Any]:
    """Adds a few operators that keep the shape of a value, and that later versions changed."""
    op = m.one("Relu", "Add", "Softmax", "Clip", "Squeeze", "Sum", "Dropout")
    first, last = source[0], source[-1]
    match op:
        case "Add" | "Sum":
            return [helper.make_node(op, [first, last], [result])]
        case "Softmax":
            return [helper.make_node(op, [first], [result], axis=1)]
        case "Clip" if m.opset < 11:
            return [helper.make_node(op, [first], [result], min=-0.5, max=1.0)]
        case "Dropout" if 7 <= m.opset < 12:
            return [helper.make_node(op, [first], [result], ratio=0.25)]
        case "Squeeze" if m.opset < 13:
            flat = f"u{suffix}"
            return [
                helper.make_node("Unsqueeze", [first], [flat], axes=[0]),
                helper.make_node("Squeeze", [flat], [result], axes=[0]),
            ]
    return [helper.make_node("Relu", [first], [result])]


def if_(m: Making) -> None:
    shape = (m.int(1, 3), m.int(1, 3))
    x, y = m.data("float", shape), m.data("float", shape)
    cond = m.feed(np.array(m.flag()), fixed=m.flag())
    branches = [
        _body(side, _step(m, [x, y], f"r{side}", side), [], [_value(f"r{side}", 1, [None] * 2)])
        for side in ("then", "else")
    ]
    m.node([cond], then_branch=branches[0], else_branch=branches[1])


def loop(m: Making) -> None:
    shape = (m.int(1, 3), m.int(1, 3))
    states = m.int(0 if m.opset >= 11 else 1, 2)
    scans = m.int(0 if states else 1, 1)
    outer = m.data("float", shape)
    if m.opset >= 13 and states and m.one(True, False, False):
        _gathering(m, outer, shape)
        return
    endless = m.opset >= 9 and m.one(True, False, False)
    limit = "" if endless else m.feed(np.array(m.int(0, 3)), fixed=True)
    nodes, outputs, inputs = [], [], [_value("i", 7, []), _value("go", 9, [])]
    nodes.append(helper.make_node("Identity", ["go"], ["go_on"]))
    if endless:
        last = numpy_helper.from_array(np.array(m.int(0, 2)))
        nodes = [
            helper.make_node("Constant", [], ["last"], value=last),
            helper.make_node("Less", ["i", "last"], ["go_on"]),
        ]
    outputs.append(_value("go_on", 9, []))
    given = []
    for n in range(states):
        given.append(m.data("float", shape))
        inputs.append(_value(f"s{n}", 1, list(shape)))
        nodes += _step(m, [f"s{n}", outer], f"t{n}", str(n))
        outputs.append(_value(f"t{n}", 1, list(shape)))
    if scans:
        nodes.append(helper.make_node("Neg", ["s0" if states else outer], ["scanned"]))
        outputs.append(_value("scanned", 1, list(shape)))
    cond = m.feed(np.array(True), fixed=True) if m.flag() else ""
    m.node([limit, cond, *given], states + scans, body=_body("body", nodes, inputs, outputs))


def _gathering(m: Making, outer: str, shape: tuple[int, ...]) -> None:
    """Appends to a sequence that a loop carries."""
    info = helper.make_value_info
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [None] * len(shape)))
    nodes = [
        helper.make_node("Identity", ["go"], ["go_on"]),
        helper.make_node("SequenceInsert", ["s", outer], ["t"]),
    ]
    inputs = [_value("i", 7, []), _value("go", 9, []), info("s", kind)]
    body = _body("body", nodes, inputs, [_value("go_on", 9, []), info("t", kind)])
    empty = m.node([], op="SequenceEmpty", dtype=1)
    limit = m.feed(np.array(m.int(1, 3)), fixed=True)
    (grown,) = m.node([limit, "", *empty], body=body)
    m.node([grown], op="ConcatFromSequence", axis=0, new_axis=m.one(None, 0, 1))


def scan(m: Making) -> None:
    if m.opset < 9:
        _scan_8(m)
        return
    length, width = m.int(1, 3), m.int(1, 3)
    state = m.data("float", (width,))
    count = m.int(1, 2)
    written: dict[str, Any] = {"num_scan_inputs": count}
    axes = [m.one(0, 1, *((-1, -2) if m.opset >= 11 else ())) for _ in range(count)]
    shapes = [(length, width) if a in (0, -2) else (width, length) for a in axes]
    scanned = [m.data("float", shape) for shape in shapes]
    if any(axes) or m.flag():
        written["scan_input_axes"] = axes
    written["scan_input_directions"] = m.maybe([m.int(0, 1) for _ in range(count)])
    written["scan_output_directions"] = m.maybe([m.int(0, 1)])
    written["scan_output_axes"] = m.maybe([m.one(0, 1, *((-1, -2) if m.opset >= 11 else ()))])
    m.node([state, *scanned], 2, body=_scan_body(m, count, width), **written)


def _scan_body(m: Making, count: int, width: int) -> GraphProto:
    names = [f"e{n}" for n in range(count)]
    nodes = [
        helper.make_node("Add", ["s", names[-1]], ["t"]),
        helper.make_node("Mul", ["t", names[0]], ["o"]),
    ]
    inputs = [_value(n, 1, [width]) for n in ("s", *names)]
    return _body("body", nodes, inputs, [_value("t", 1, [width]), _value("o", 1, [width])])


def _scan_8(m: Making) -> None:
    batch, length, width = m.int(1, 2), m.int(1, 3), m.int(1, 3)
    lengths = m.feed(m.rng.integers(1, length + 1, batch)) if m.flag() else ""
    state, scanned = m.data("float", (batch, width)), m.data("float", (batch, length, width))
    directions = None if lengths else m.maybe([m.int(0, 1)])
    outputs = (True, not lengths)
    m.node(
        [lengths, state, scanned],
        outputs,
        body=_scan_body(m, 1, width),
        num_scan_inputs=1,
        directions=directions,
    )


def sequence_map(m: Making) -> None:
    shape = (m.int(1, 3), 2)
    items = [m.data("float", shape) for _ in range(m.int(1, 3))]
    (sequence,) = m.node(items, op="SequenceConstruct")
    extra = [m.data("float", shape)] if m.flag() else []
    names = ["e", *(["f"] if extra else [])]
    nodes = _step(m, names, "r", "")
    body = _body(
        "body", nodes, [_value(n, 1, [None, None]) for n in names], [_value("r", 1, [None, None])]
    )
    (mapped,) = m.node([sequence, *extra], body=body)
    m.node([mapped], op="ConcatFromSequence", axis=0)


CONTROL: Family = {
    **rows("If", if_),
    **rows("Loop", loop),
    **rows("Scan", scan),
    **rows("SequenceMap", sequence_map),
}
