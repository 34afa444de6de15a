"""MatMul, Gemm and Det."""

from opshift.adapter import boundary
from opshift.combinators import cast_around

GEMM_6 = boundary(6, "Gemm:ddbc0c")
MATRIX_13 = boundary(13, "Gemm:9773d9 MatMul:2e2c47")
DET_22 = boundary(22, "Det:0fcd0a", cast=cast_around("float"))
GEMM_9 = boundary(9, "Gemm:eddd78 MatMul:433a95", directions="up")
GEMM_11 = boundary(11, "Gemm:113567", directions="up")
