# SPDX-License-Identifier: Apache-2.0
"""The table of element types: range, precision, storage, numpy type, opset and IR version."""

from __future__ import annotations

import enum
import math
from typing import NamedTuple


class T(enum.IntEnum):
    """The numbers of element types in TensorProto.DataType."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26
    FLOAT6E2M3 = 27
    FLOAT6E3M2 = 28

    @classmethod
    def has(cls, number: int) -> bool:
        """Returns whether a number is the number of an element type."""
        return number in cls._value2member_map_

    @property
    def element(self) -> Element:
        """The properties of a numeric type; raises KeyError for strings."""
        return ELEMENTS[self]

    @property
    def fraction(self) -> Fraction:
        """The precision and range of a floating-point type; raises TypeError for other types."""
        fraction = ELEMENTS[self].fraction
        if fraction is None:
            raise TypeError(f"{self.name} is not a floating-point type")
        return fraction

    @property
    def is_float8(self) -> bool:
        """Whether the type is an 8-bit float that Cast saturates and QuantizeLinear writes."""
        return self in ELEMENTS and ELEMENTS[self].is_float8


OLDEST = 3  # the IR version of most element types


class Fraction(NamedTuple):
    """The precision and range of a floating-point type, or of the parts of a complex type."""

    bits: int  # of the significand
    least: int  # the exponent of the smallest positive number
    largest: float  # the largest finite number
    zeros: int = 2  # the number of zeros: 1 if negative zero does not exist

    @property
    def above_all(self) -> int:
        """The exponent of the power of two above the largest number."""
        return math.frexp(self.largest)[1]

    @property
    def smallest_normal(self) -> float:
        """The smallest number with full precision."""
        return math.ldexp(1.0, self.least + self.bits - 1)

    @property
    def below_one(self) -> float:
        """The distance between 1 and the next smaller number."""
        return math.ldexp(1.0, max(-self.bits, self.least))

    def above(self, number: float) -> float:
        """Returns the smallest number of this type above a number."""
        step = math.ldexp(1.0, math.frexp(number)[1] - self.bits)
        return (number // step + 1) * step

    def holds(self, other: Fraction) -> bool:
        """Returns whether this type represents every number of another type, with its sign."""
        return (
            self.bits >= other.bits
            and self.least <= other.least
            and self.largest >= other.largest
            and self.zeros >= other.zeros
        )


class Element(NamedTuple):
    """The properties of one element type."""

    number: T
    bits: int  # of one element in raw_data
    field: int  # the field of TensorProto for its elements, if they are not in raw_data
    numpy: str = ""  # the numpy type in little-endian order
    ml_dtypes: str = ""  # the type in ml_dtypes; without any, onnx's helper reads the tensor
    short: str = ""  # the name in the table of kernels
    ir: int = OLDEST  # the IR version that introduced it
    opset: int = 1  # the opset that introduced it
    replacement: T | None = None  # the type that older opsets use instead; it represents each value
    fraction: Fraction | None = None  # None for integers

    @property
    def name(self) -> str:
        return self.number.name.lower()

    @property
    def oldest_replacement(self) -> T | None:
        """The type that replaces this type in opset 1, or None."""
        return self.replacement and (
            self.replacement.element.oldest_replacement or self.replacement
        )

    @property
    def is_integer(self) -> bool:
        """Whether the type is an integer type or bool."""
        return self.fraction is None

    @property
    def is_complex(self) -> bool:
        return self.name.startswith("complex")

    @property
    def is_float8(self) -> bool:
        return self.bits == 8 and self.fraction is not None and self.fraction.zeros > 0

    @property
    def finite(self) -> tuple[float, float]:
        """The smallest and largest finite number; only for types with negative numbers."""
        if self.fraction is not None:
            return -self.fraction.largest, self.fraction.largest
        return self.limits

    @property
    def limits(self) -> tuple[int, int]:
        """The largest range in which the type represents every integer."""
        if self.fraction is not None:
            end = min(2**self.fraction.bits, int(self.fraction.largest))
            return (-end, end) if self.fraction.zeros else (1, end)
        if self.number is T.BOOL:
            return 0, 1
        if self.name.startswith("uint"):
            return 0, 2**self.bits - 1
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1

    def holds(self, other: Element) -> bool:
        """Returns whether this type represents every value of another type."""
        if self.is_complex != other.is_complex:
            return False
        if other.fraction is not None:
            return self.fraction is not None and self.fraction.holds(other.fraction)
        return self.limits[0] <= other.limits[0] and other.limits[1] <= self.limits[1]


_FLOAT, _INT32, _INT64, _DOUBLE, _UINT64 = 4, 5, 7, 10, 11  # fields of a TensorProto
_F4 = Fraction(24, -149, float(2**128 - 2**104))
_F8 = Fraction(53, -1074, float(2**1024 - 2**971))
_B2 = Fraction(8, -133, float(2**128 - 2**120))

ELEMENTS: dict[int, Element] = {row.number: row for row in (
    Element(T.FLOAT, 32, _FLOAT, "<f4", short="f4", fraction=_F4),
    Element(T.UINT8, 8, _INT32, "u1", short="u1"),
    Element(T.INT8, 8, _INT32, "i1", short="i1"),
    Element(T.UINT16, 16, _INT32, "<u2", short="u2"),
    Element(T.INT16, 16, _INT32, "<i2", short="i2"),
    Element(T.INT32, 32, _INT32, "<i4", short="i4"),
    Element(T.INT64, 64, _INT64, "<i8", short="i8"),
    Element(T.BOOL, 8, _INT32, "?", short="b"),
    Element(T.FLOAT16, 16, _INT32, "<f2", short="f2", fraction=Fraction(11, -24, 65504)),
    Element(T.DOUBLE, 64, _DOUBLE, "<f8", short="f8", fraction=_F8),
    Element(T.UINT32, 32, _UINT64, "<u4", short="u4"),
    Element(T.UINT64, 64, _UINT64, "<u8", short="u8"),
    Element(T.COMPLEX64, 64, _FLOAT, fraction=_F4),
    Element(T.COMPLEX128, 128, _DOUBLE, fraction=_F8),
    Element(T.BFLOAT16, 16, _INT32, "", "bfloat16", "b2", 4, 13, T.FLOAT, _B2),
    Element(T.FLOAT8E4M3FN, 8, _INT32, "", "float8_e4m3fn", "e4m3", 9, 19, T.FLOAT,
            Fraction(4, -9, 448)),
    Element(T.FLOAT8E4M3FNUZ, 8, _INT32, "", "float8_e4m3fnuz", "e4m3z", 9, 19, T.FLOAT,
            Fraction(4, -10, 240, zeros=1)),
    Element(T.FLOAT8E5M2, 8, _INT32, "", "float8_e5m2", "e5m2", 9, 19, T.FLOAT,
            Fraction(3, -16, 57344)),
    Element(T.FLOAT8E5M2FNUZ, 8, _INT32, "", "float8_e5m2fnuz", "e5m2z", 9, 19, T.FLOAT,
            Fraction(3, -17, 57344, zeros=1)),
    Element(T.UINT4, 4, _INT32, "", "uint4", "uint4", 10, 21, T.UINT8),
    Element(T.INT4, 4, _INT32, "", "int4", "int4", 10, 21, T.INT8),
    Element(T.FLOAT4E2M1, 4, _INT32, "", "float4_e2m1fn", "e2m1", 11, 23, T.FLOAT8E4M3FN,
            Fraction(2, -1, 6)),
    Element(T.FLOAT8E8M0, 8, _INT32, "", "", "e8m0", 12, 24, T.FLOAT,
            Fraction(1, -127, float(2**127), zeros=0)),
    Element(T.UINT2, 2, _INT32, "", "", "uint2", 13, 25, T.UINT8),
    Element(T.INT2, 2, _INT32, "", "", "int2", 13, 25, T.INT8),
    Element(T.FLOAT6E2M3, 6, _INT32, "", "", "e2m3", 14, 28, T.FLOAT8E4M3FN, Fraction(4, -3, 7.5)),
    Element(T.FLOAT6E3M2, 6, _INT32, "", "", "e3m2", 14, 28, T.FLOAT8E4M3FN, Fraction(3, -4, 28)),
)}  # fmt: skip
"""The elements by number. Strings are not in this table."""
NAMED: dict[str, Element] = {row.name: row for row in ELEMENTS.values()}
"""The elements by their name in schemas."""
