# SPDX-License-Identifier: Apache-2.0
"""Nodes that runtimes misread if their weight is also a graph input, which callers may replace."""

from functools import partial

from opshift.adapter import Node, Surroundings, T, misread

MEASURED = partial(
    misread,
    source="2026-11-29 1.17, 1.20 and 1.22..1.32: 18 nodes with a"
    " float16 weight that is also an input; in 1.22 to 1.24, 1.29 and 1.30: 44 operators; in 1.24:"
    " four exports of Chainer and tf2onnx",
)
WITHOUT_A_KERNEL_OF_FLOAT16 = (
    "Abs Add Conv ConvTranspose Div Einsum Equal Erf Exp Greater Less Mean Mul Neg PRelu Pow"
    " ReduceMean ReduceSum Relu Sigmoid Sqrt Sub Sum Tanh Where"
)
ENDS = "{op} of float16 with a weight that is also a model input crashes the process"


@MEASURED(WITHOUT_A_KERNEL_OF_FLOAT16, "onnxruntime 1.23..1.29", ENDS)
def reads_a_default_of_float16(node: Node, around: Surroundings) -> bool:
    return any(
        value is not None and value.elem_type_or_none == T.FLOAT16 and around.is_default(value)
        for value in node.inputs
    )


@MEASURED("Gemm MatMul", "onnxruntime 1.23..1.28", ENDS)
def multiplies_by_a_default_of_float16(node: Node, around: Surroundings) -> bool:
    return bool(reads_a_default_of_float16.run(node, around))
