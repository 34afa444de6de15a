# SPDX-License-Identifier: Apache-2.0
"""RNN, GRU and LSTM with their attributes for layout, outputs and reset gate."""

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
    misread,
    np,
)
from opshift.combinators import cast_around

BFLOAT16_22 = boundary(22, "RNN:fd4c07 GRU:405f19 LSTM:40d096", cast=cast_around("float"))
LAYOUT_14 = boundary(14, "RNN:228454 GRU:452a0a LSTM:ec6f5e", directions="up")


@adapter("RNN GRU LSTM", 14, 13)
def layout_14_13(node: Node, op: Builder) -> Result:
    """Below opset 14, RNN, GRU and LSTM lack `layout`; Transposes move the batch axis instead."""
    if not node.int("layout"):
        return op.same(node, layout=None)
    inputs: dict[str, Value | None] = {}
    for name in ("X", "initial_h", *(["initial_c"] if node.op == "LSTM" else [])):
        value = node.input(name)
        if value is not None:
            inputs[name] = op.Transpose(value, perm=[1, 0, 2])
    values = op.same(node, inputs=inputs, outputs=node.n_outputs, layout=None)
    return tuple(
        value if name is None else op.Transpose(value, perm=[1, 0, 2] if i else [2, 0, 1, 3])
        for i, (value, name) in enumerate(zip(values, node.outputs, strict=False))
    )


@misread("RNN GRU LSTM", "onnxruntime 0.4..1.32", source="2026-11-30 1.2..1.32", since=14)
def begins_with_the_batch(node: Node) -> bool:
    """{op} with layout = 1 does not load."""
    return node.int("layout") == 1


@alternative("RNN GRU LSTM", runtime="onnxruntime==1.20")
def with_the_time_first(node: Node, op: Builder) -> Result:
    """Transposes move the batch axis, and GRU gets zeros as B, as onnxruntime requires."""
    run, rows = layout_14_13.run, node["R"].shape_or_none
    if run and op.version >= 14 and node.int("layout"):
        return run(node, op)
    if node.op != "GRU" or node.input("B") is not None or rows is None:
        return KEEP
    zeros = op.const(np.zeros((rows[0], 2 * rows[1])), like=node["R"])
    return op.same(node, inputs={"B": zeros}, outputs=node.n_outputs)


@misread("GRU", "onnxruntime 1.0..1.2", source="2026-11-30 1.0..1.32: 12 forms", since=3)
def has_no_bias(node: Node) -> bool:
    """GRU with linear_before_reset and without B does not run."""
    return node.int("linear_before_reset") == 1 and node.input("B") is None


@adapter("RNN GRU LSTM", 7, 6)
def output_sequence_7_6(node: Node, op: Builder) -> Result:
    """Below opset 7, `output_sequence` of RNN, GRU and LSTM is 1 if the output Y has a name."""
    return op.same(node, output_sequence=int(node.output("Y") is not None))


@adapter("RNN GRU LSTM", 6, 7, ignores={"output_sequence": "nodes compute outputs by name"})
def output_sequence_6_7(node: Node, op: Builder) -> Result:
    """Opset 7 removed `output_sequence`; a node computes each output that has a name."""
    return op.same(node, output_sequence=None)


@adapter("GRU", 3, 2)
def gru_3_2(node: Node, op: Builder) -> Result:
    """Opset 3 added `linear_before_reset` to GRU; below opset 3, only 0 is supported."""
    if node.int("linear_before_reset"):
        raise Refusal(Why.NOT_EXPRESSIBLE, "GRU has no linear_before_reset before opset 3")
    direction, count = node.str("direction"), node.n_outputs
    values = op.same(node, outputs=2, linear_before_reset=None, direction=direction)
    return values[:count]


@adapter("GRU", 2, 3)
def gru_2_3(node: Node, op: Builder) -> Result:
    """Opset 3 corrected the misspelled default `foward` of `direction` in GRU to `forward`."""
    if node.str("direction") == "foward":
        return op.same(node, direction="forward")
    return KEEP


@misread("GRU LSTM", "onnxruntime 0.4..1.32", source="2026-11-29 0.4..1.32: double")
def is_computed_in_double(node: Node) -> bool:
    """{op} of double loads but does not run."""
    return node["X"].elem_type_or_none == T.DOUBLE
