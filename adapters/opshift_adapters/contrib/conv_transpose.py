# SPDX-License-Identifier: Apache-2.0
"""ConvTransposeWithDynamicPads: ConvTranspose whose pads are an input."""

from opshift.adapter import Builder, InvalidModel, Node, Result, Value, leaving

from opshift_adapters._lib.contrib import MICROSOFT, written

AS_IN_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides")


@leaving("ConvTransposeWithDynamicPads", domain=MICROSOFT, since=11)
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
