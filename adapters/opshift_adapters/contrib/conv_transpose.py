# SPDX-License-Identifier: Apache-2.0
"""ConvTransposeWithDynamicPads: ConvTranspose whose pads are an input."""

from opshift.adapter import Builder, InvalidModel, Node, Result, Value, Why, example, leaving

from opshift_adapters._lib.contrib import MICROSOFT, written

AS_IN_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides")
IMAGE = "(float[2,2,4,4] x, float[2,3,3,3] w, float[3] b) => (float[2,3,p,q] y) "
CALL = "{ y = com.microsoft.ConvTransposeWithDynamicPads<kernel_shape=[3,3], strides=[2,2]>"


@leaving("ConvTransposeWithDynamicPads", domain=MICROSOFT, since=11)
@example(
    "constant pads",
    IMAGE + "<int64[4] d = {1, 0, 0, 1}> " + CALL + "(x, w, d, b) }",
    gives="ConvTranspose",
    atol=1e-5,
)
@example("no pads", IMAGE + CALL + '(x, w, "", b) }', refuses=Why.NOT_EXPRESSIBLE)
def conv_transpose_with_dynamic_pads(node: Node, op: Builder) -> Result:
    """ConvTranspose is written; the pads, an input, must be constant and become an attribute."""
    pads, w, bias = node["Pads"].const().tolist(), node["W"], node.input("B")
    if w.rank_or_none not in (None, len(pads) // 2 + 2):
        raise InvalidModel(
            f"{node.op} {node.name!r} has {len(pads)} pads and weights of rank {w.rank}"
        )
    same = written(node, *AS_IN_CONV)
    y: Value = op.ConvTranspose(node["X"], w, bias, pads=pads, **same)
    return y
