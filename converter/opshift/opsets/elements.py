# SPDX-License-Identifier: Apache-2.0
"""The table of element types: range, wider types, storage, numpy type, opset and IR version."""

from __future__ import annotations

import enum
from typing import NamedTuple


class T(enum.IntEnum):
    """The numbers that TensorProto.DataType gives to element types."""

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
        """Whether a number stands for an element type."""
        return number in cls._value2member_map_

    @property
    def element(self) -> Element:
        """The properties of a type of numbers; raises KeyError for strings."""
        return ELEMENTS[self]


OLDEST = 3  # the IR version of the first release, which has most of them


class Element(NamedTuple):
    """The properties of one element type."""

    number: T
    bits: int  # of one element in raw_data
    field: int  # the field of a TensorProto, besides raw_data, that can hold it
    numpy: str = ""  # its type in numpy itself, as tensors hold it
    ml_dtypes: str = ""  # its type in ml_dtypes; without either, onnx's own helper reads it
    short: str = ""  # its name in the table of kernels
    wider: str = ""  # the types that hold each of its values
    ir: int = OLDEST  # the IR version that introduced it
    opset: int = 1  # the opset that introduced it
    wide: T | None = None  # the next older type that holds each of its values, signed zeros too
    largest: int | None = None  # its largest value, where a larger one becomes it

    @property
    def name(self) -> str:
        return self.number.name.lower()

    @property
    def widest(self) -> T | None:
        """The oldest type that holds each of its values, if there is an older one."""
        return self.wide and (self.wide.element.widest or self.wide)

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type or bool."""
        return self.number is T.BOOL or self.name.startswith(("int", "uint"))

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest value of an integer type or of bool."""
        if self.number is T.BOOL:
            return 0, 1
        if not self.is_integer:
            raise ValueError(f"{self.name} is not an integer type")
        if self.name.startswith("uint"):
            return 0, 2**self.bits - 1
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1


_FLOAT, _INT32, _INT64, _DOUBLE, _UINT64 = 4, 5, 7, 10, 11  # fields of a TensorProto
_OVER_8 = "int32 int64 float16 bfloat16 float double"

ELEMENTS: dict[int, Element] = {row.number: row for row in (
    Element(T.FLOAT, 32, _FLOAT, "<f4", short="f4", wider="double"),
    Element(T.UINT8, 8, _INT32, "u1", short="u1", wider=f"uint16 int16 uint32 uint64 {_OVER_8}"),
    Element(T.INT8, 8, _INT32, "i1", short="i1", wider=f"int16 {_OVER_8}"),
    Element(T.UINT16, 16, _INT32, "<u2", short="u2",
            wider="uint32 int32 uint64 int64 float double"),
    Element(T.INT16, 16, _INT32, "<i2", short="i2", wider="int32 int64 float double"),
    Element(T.INT32, 32, _INT32, "<i4", short="i4", wider="int64 double"),
    Element(T.INT64, 64, _INT64, "<i8", short="i8"),
    Element(T.BOOL, 8, _INT32, "?", short="b",
            wider=f"int8 uint8 int16 uint16 uint32 uint64 {_OVER_8}"),
    Element(T.FLOAT16, 16, _INT32, "<f2", short="f2", wider="float double"),
    Element(T.DOUBLE, 64, _DOUBLE, "<f8", short="f8"),
    Element(T.UINT32, 32, _UINT64, "<u4", short="u4", wider="uint64 int64 double"),
    Element(T.UINT64, 64, _UINT64, "<u8", short="u8"),
    Element(T.COMPLEX64, 64, _FLOAT, wider="complex128"),
    Element(T.COMPLEX128, 128, _DOUBLE),
    Element(T.BFLOAT16, 16, _INT32, "", "bfloat16", "b2", "float double", 4, 13, T.FLOAT),
    Element(T.FLOAT8E4M3FN, 8, _INT32, "", "float8_e4m3fn", "", "", 9, 19, T.FLOAT, 448),
    Element(T.FLOAT8E4M3FNUZ, 8, _INT32, "", "float8_e4m3fnuz", "", "", 9, 19, T.FLOAT, 240),
    Element(T.FLOAT8E5M2, 8, _INT32, "", "float8_e5m2", "", "", 9, 19, T.FLOAT, 57344),
    Element(T.FLOAT8E5M2FNUZ, 8, _INT32, "", "float8_e5m2fnuz", "", "", 9, 19, T.FLOAT, 57344),
    Element(T.UINT4, 4, _INT32, "", "uint4", ir=10, opset=21, wide=T.UINT8),
    Element(T.INT4, 4, _INT32, "", "int4", ir=10, opset=21, wide=T.INT8),
    Element(T.FLOAT4E2M1, 4, _INT32, "", "float4_e2m1fn", ir=11, opset=23, wide=T.FLOAT8E4M3FN),
    Element(T.FLOAT8E8M0, 8, _INT32, ir=12, opset=24, wide=T.FLOAT),
    Element(T.UINT2, 2, _INT32, ir=13, opset=25, wide=T.UINT8),
    Element(T.INT2, 2, _INT32, ir=13, opset=25, wide=T.INT8),
    Element(T.FLOAT6E2M3, 6, _INT32, ir=14, opset=28, wide=T.FLOAT8E4M3FN),
    Element(T.FLOAT6E3M2, 6, _INT32, ir=14, opset=28, wide=T.FLOAT8E4M3FN),
)}  # fmt: skip
"""The rows by number; strings, which are no numbers, have none."""
