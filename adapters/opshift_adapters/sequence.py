"""Sequences: born in 11; below it they exist only as what becomes of their elements."""

from opshift.adapter import boundary

SPLIT_TO_24 = boundary(24, "SplitToSequence:d92688")
