"""Abs, Exp, Sqrt, Sin, Erf, IsNaN, ...: mathematics of one operand, element by element."""

from opshift.adapter import boundary
from opshift.combinators import cast_around, drop_attribute

MATH_6 = boundary(
    6,
    (
    "Ceil:b70fea Exp:f83680 Floor:01fdd9 Log:ab9f59 Reciprocal:b05bb6 Sigmoid:1146b9 "
    "Sqrt:887227 Tanh:97bed0"
),
    up=drop_attribute("consumed_inputs"),
)
MATH_6_UP = boundary(6, "Abs:e06ecc Neg:08394b", up=drop_attribute("consumed_inputs"), directions="up")
MATH_13 = boundary(13, (
    "Abs:bca7a5 Ceil:3d6cff Exp:96ddb1 Floor:0e9e0e IsNaN:cbe16b Log:a5ad3b Neg:a5f736 "
    "Reciprocal:1f5cfe Sigmoid:519d06 Sign:17e450 Sqrt:ac76d4 Tanh:7ca8ed"
))
ERF_13 = boundary(13, "Erf:bd89e1/0a3472", directions="down")
MATH_20 = boundary(20, "IsInf:4c7d49 IsNaN:e7e615", cast=cast_around("float"))
MATH_22 = boundary(
    22,
    (
    "Acos:d30a43 Acosh:93e830 Asin:a2692b Asinh:eb8ac1 Atan:78b91c Atanh:93bc25 Cos:8ace6e "
    "Cosh:f04f02 Round:753fed Sin:d3801a Sinh:340a1c Tan:b72354"
),
    cast=cast_around("float"),
)
