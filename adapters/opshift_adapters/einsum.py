"""Einsum."""

from opshift.adapter import boundary
from opshift.combinators import cast_around

EINSUM_28 = boundary(28, "Einsum:bf3219", cast=cast_around("float"))
