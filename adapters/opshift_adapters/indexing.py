"""Gather, GatherElements, GatherND, Compress, NonZero, OneHot, Unique, ReverseSequence."""

from opshift.adapter import boundary
from opshift.combinators import cast_around

INDEXING_11 = boundary(11, "Gather:6a21f0 Compress:688b4d", directions="up")
GATHER_ND_12 = boundary(12, "GatherND:04663c", directions="up")
INDEXING_13 = boundary(13, "Gather:cc891f GatherElements:f04429 GatherND:b4d248 NonZero:52cff1")
INDEXING_28 = boundary(28, "Compress:31d097 OneHot:d0aa0a ReverseSequence:c42913 Unique:fccede", cast=cast_around("float"))
