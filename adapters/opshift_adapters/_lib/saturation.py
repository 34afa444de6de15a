# SPDX-License-Identifier: Apache-2.0
"""Products of uint8 and int8 codes, whose sums saturate on some processors.

Products of uint8 codes are exact in onnxruntime on every processor, so int8 codes become uint8.
With VNNI, onnxruntime computes both forms with the same instruction.
"""

import functools

from opshift.adapter import Builder, Node, Result, T, Value, misread

from opshift_adapters._lib.scales import unsigned

LIMIT = "may saturate (unless all int8 codes are from -64 to 64)"
SAYS = f"{{op}} of uint8 and int8 codes {LIMIT}"

saturating = functools.partial(
    misread,
    source="2026-11-28 1.2.0..1.32.0 on a processor with only AVX2: sums"
    " of 64 products of codes; onnxruntime's page on quantization names the instruction",
    processors="x86 processors without VNNI",
)


def differ(left: Value, right: Value) -> bool:
    """Returns whether the codes of the left factor are uint8 and those of the right factor int8."""
    return left.elem_type_or_none == T.UINT8 and right.elem_type_or_none == T.INT8


def with_unsigned(node: Node, op: Builder, **points: str) -> Result:
    """Returns the node with these inputs and their zero points converted to uint8."""
    inputs: dict[str, Value | None] = {}
    for name, point in points.items():
        inputs[name], inputs[point] = unsigned(op, node[name], node.input(point))
    return op.same(node, inputs=inputs)
