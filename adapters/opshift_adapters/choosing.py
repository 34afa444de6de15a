"""Compress, NonZero, OneHot, Unique, ReverseSequence: which elements, by condition or position."""

from opshift.adapter import boundary
from opshift.combinators import cast_around

COMPRESS_11 = boundary(11, "Compress:688b4d", directions="up")
NON_ZERO_13 = boundary(13, "NonZero:52cff1")
CHOOSING_28 = boundary(28, "Compress:31d097 OneHot:d0aa0a ReverseSequence:c42913 Unique:fccede", cast=cast_around("float"))
