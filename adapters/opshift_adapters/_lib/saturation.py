# SPDX-License-Identifier: Apache-2.0
"""Products of uint8 and int8 codes, of which some processors saturate the sum of two.

Products of uint8 codes are exact in onnxruntime on every processor, so int8 codes become uint8.
With VNNI, onnxruntime computes both forms with the same instruction.
"""

import functools

from opshift.adapter import Builder, Node, Result, T, Value, misread

from opshift_adapters._lib.scales import unsigned

LIMIT = "may saturate, unless all int8 codes are from -64 to 64,"
SAYS = f"{{op}} of uint8 and int8 codes {LIMIT}"

saturating = functools.partial(
    misread,
    source="2026-11-28 measured in 1.2.0 to 1.32.0 on a processor with AVX2 alone: products of 64"
    " codes against exact sums; onnxruntime's page on quantization names the instruction",
    processors="x86 processors without VNNI",
)


def differ(left: Value, right: Value) -> bool:
    """Whether the first codes are uint8, and the second ones int8."""
    return left.elem_type_or_none == T.UINT8 and right.elem_type_or_none == T.INT8


def with_unsigned(node: Node, op: Builder, **points: str) -> Result:
    """The node with these inputs as codes of uint8, and with their zero points."""
    inputs: dict[str, Value | None] = {}
    for name, point in points.items():
        inputs[name], inputs[point] = unsigned(op, node[name], node.input(point))
    return op.same(node, inputs=inputs)
