# SPDX-License-Identifier: Apache-2.0
"""DynamicQuantizeLSTM: LSTM with quantized weights that quantizes data and state at each step."""

from opshift.adapter import Builder, Node, Result, T, Value, alternative, leaving, misread

from opshift_adapters._lib.contrib import MICROSOFT, written
from opshift_adapters._lib.saturation import SAYS, saturating, with_unsigned

AS_IN_LSTM = "activation_alpha activation_beta activations clip direction hidden_size input_forget"


@leaving("DynamicQuantizeLSTM", domain=MICROSOFT, since=11, approximate=True)
def dynamic_quantize_lstm(node: Node, op: Builder) -> Result:
    """DynamicQuantizeLSTM becomes LSTM of dequantized inputs, which does not quantize its state."""
    op.approximate(f"{node.op} quantizes the state at each step, but the new LSTM does not")
    w, r = _weights(node, op, "W"), _weights(node, op, "R")
    rest = [node.input(name) for name in ("B", "sequence_lens", "initial_h", "initial_c", "P")]
    x = op.DequantizeLinear(*op.DynamicQuantizeLinear(node["X"], outputs=3))
    same = written(node, *AS_IN_LSTM.split())
    y: tuple[Value, ...] = op.LSTM(x, w, r, *rest, outputs=node.n_outputs, **same)
    return y


def _weights(node: Node, op: Builder, name: str) -> Value:
    """Dequantizes and transposes the weights, which have a scale per direction or per column."""
    shape = op.const([0, 1, -1])
    zero = op.Reshape(op.Cast(node[f"{name}_zero_point"], to=T.FLOAT), shape)
    moved = op.Cast(node[name], to=T.FLOAT) - zero
    wide = moved * op.Reshape(node[f"{name}_scale"], shape)
    return op.Transpose(wide, perm=[0, 2, 1])


@saturating("DynamicQuantizeLSTM", "onnxruntime 1.6..1.32", SAYS, domain=MICROSOFT)
def of_dynamic_steps(node: Node) -> bool:
    return node["W"].elem_type_or_none == T.INT8


@alternative("DynamicQuantizeLSTM", domain=MICROSOFT, runtime="onnxruntime==1.16")
def steps_of_unsigned_codes(node: Node, op: Builder) -> Result:
    """The int8 weights of DynamicQuantizeLSTM become uint8 codes, which are 128 higher."""
    return with_unsigned(node, op, W="W_zero_point", R="R_zero_point")


@misread(
    "DynamicQuantizeLSTM",
    "onnxruntime 1.7..1.32",
    source="2026-11-30 9 releases, 1.6..1.32: batches up to 8, 1 to 4 threads",
    processors="processors with several cores",
    domain=MICROSOFT,
)
def is_divided_among_threads(node: Node) -> bool | None:
    """{op} quantizes the state separately for the part of a batch that each thread computes."""
    batch = node["X"].dims[1]
    fewest = 5 if node.int("hidden_size") > 256 else 2
    return batch >= fewest if isinstance(batch, int) else None
