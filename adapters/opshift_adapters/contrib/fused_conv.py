# SPDX-License-Identifier: Apache-2.0
"""FusedConv: Conv followed by a sum and an activation."""

from opshift.adapter import Builder, Node, Result, leaving

from opshift_adapters._lib.contrib import MICROSOFT, activated, attribute, written

AS_IN_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


@leaving("FusedConv", domain=MICROSOFT, since=11)
def fused_conv(node: Node, op: Builder) -> Result:
    """FusedConv is Conv, an optional Add and an activation; these are written."""
    y = op.Conv(node["X"], node["W"], node.input("B"), **written(node, *AS_IN_CONV))
    added = node.input("Z")
    y = y if added is None else y + added
    told = [float(one) for one in attribute(node, "activation_params", [])]
    name = attribute(node, "activation", "")
    return activated(op, y, name, told) if name else y
