"""ArgMax, ArgMin, TopK."""

from opshift.adapter import boundary, example, shown
from opshift.combinators import positive_axis

RANKLESS = "(float[24] v, int64[n] s) => (int64[a,b,c] y) { x = Reshape(v, s) "

ARG_11 = boundary(
    11,
    "ArgMax:e43d4a ArgMin:ee9499",
    down=shown(
        positive_axis(),
        example("default", "(float[2,3] x) => (int64[1,3] y) { y = {op}(x) }", gives="{op}"),
        example("negative", "(float[2,3] x) => (int64[2] y) { y = {op}<axis=-1, keepdims=0>(x) }", gives="{op}"),
    ),
)
ARG_13 = boundary(13, "ArgMax:535301 ArgMin:5cea2b")
ARG_12 = boundary(12, "ArgMax:72625a ArgMin:aab8c7", directions="up")
TOPK_11 = boundary(11, "TopK:2439e1", directions="up")
