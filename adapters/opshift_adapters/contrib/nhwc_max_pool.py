# SPDX-License-Identifier: Apache-2.0
"""NhwcMaxPool: MaxPool of quantized data whose channels come last."""

from opshift.adapter import Builder, Node, Result, Value, leaving

from opshift_adapters._lib.contrib import MICROSOFT, written

POOL = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")


@leaving("NhwcMaxPool", domain=MICROSOFT, since=12)
def nhwc_max_pool(node: Node, op: Builder) -> Result:
    """NhwcMaxPool has the channels last; MaxPool between two Transposes is written."""
    x = node["x"]
    moved = op.Transpose(x, perm=[0, x.rank - 1, *range(1, x.rank - 1)])
    y: Value = op.MaxPool(moved, **written(node, *POOL))
    return op.Transpose(y, perm=[0, *range(2, x.rank), 1])
