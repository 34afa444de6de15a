"""Add, Sub, Mul, Div, Pow and Mod (their broadcasting at 7 is in broadcast.py)."""

from opshift.adapter import boundary
from opshift.combinators import cast_around

ARITHMETIC_13 = boundary(13, "Add:16145e Sub:79a520 Mul:179f58 Div:6a3efd Pow:e1caab Mod:eb26b7")
# In 64 bits nothing overflows, and the Cast back keeps the low bits: what a narrow operator does.
ARITHMETIC_14 = boundary(14, "Add:e908c6 Sub:ff37b3 Mul:9fd848 Div:88f015", cast=cast_around("int64"))
POW_15 = boundary(15, "Pow:edfedc", cast=cast_around("float"))
POW_12 = boundary(12, "Pow:8c38fc", directions="up")
MOD_28 = boundary(28, "Mod:9345c5", directions="up")
