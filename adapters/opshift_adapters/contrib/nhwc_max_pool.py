# SPDX-License-Identifier: Apache-2.0
"""NhwcMaxPool: MaxPool of quantized data whose channels come last."""

from opshift.adapter import Builder, Node, Result, Value, example, leaving

from opshift_adapters._lib.contrib import MICROSOFT, written

POOL = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")


@leaving("NhwcMaxPool", domain=MICROSOFT, since=12)
@example(
    "padded",
    "(uint8[2,6,6,2] x) => (uint8[2,a,b,2] y) { y = com.microsoft.NhwcMaxPool<kernel_shape=[3,2],"
    " pads=[1,0,1,0], strides=[2,1]>(x) }",
    gives="Transpose MaxPool Transpose",
)
def nhwc_max_pool(node: Node, op: Builder) -> Result:
    """NhwcMaxPool has the channels last; MaxPool between two Transposes is written."""
    x = node["x"]
    moved = op.Transpose(x, perm=[0, x.rank - 1, *range(1, x.rank - 1)])
    y: Value = op.MaxPool(moved, **written(node, *POOL))
    return op.Transpose(y, perm=[0, *range(2, x.rank), 1])
