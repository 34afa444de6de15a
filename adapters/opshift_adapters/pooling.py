"""AveragePool, MaxPool, LpPool, their global forms, MaxUnpool, MaxRoiPool."""

from opshift.adapter import boundary
from opshift.combinators import cast_around

BFLOAT16_22 = boundary(22, (
    "AveragePool:1cb9bf MaxPool:702056 LpPool:a3e292 GlobalAveragePool:0b6629 "
    "GlobalMaxPool:7be94c GlobalLpPool:ad52a7/c56e93 MaxUnpool:f48b0c MaxRoiPool:6a4509"
), cast=cast_around("float"))
DILATIONS_19 = boundary(19, "AveragePool:79361c", directions="up")
DILATIONS_18 = boundary(18, "LpPool:1b2195", directions="up")
INT8_12 = boundary(12, "MaxPool:c13afe", cast=cast_around("float"))
TEXT_11 = boundary(11, "AveragePool:ca6623 MaxPool:112b82 LpPool:680ffd MaxUnpool:00a49e")
CEIL_10 = boundary(10, "AveragePool:a52562 MaxPool:93431a", directions="up")
INDICES_8 = boundary(8, "MaxPool:20f670", directions="up")
INCLUDE_PAD_7 = boundary(7, "AveragePool:19e318", directions="up")
