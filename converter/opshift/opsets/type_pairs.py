# SPDX-License-Identifier: Apache-2.0
"""The table of changes between element types that a request may ask for."""

from __future__ import annotations

import enum
from typing import NamedTuple

from opshift.opsets.elements import ELEMENTS, T


class Change(enum.Enum):
    """The effect that a change of the element type has on the numbers of a tensor."""

    WIDENS = "holds every number"
    ROUNDS = "rounds numbers"
    BOUNDED = "holds every number in the proved range"


class TypePair(NamedTuple):
    """An element type, its replacement, and the effect on numbers."""

    start: T
    to: T
    change: Change


_ROWS = ELEMENTS.values()
_FLOAT8 = [row.number for row in _ROWS if row.is_float8]
_INTEGER4 = [
    (row.number, row.replacement)
    for row in _ROWS
    if row.bits == 4 and row.is_integer and row.replacement is not None
]
PAIRS = tuple(
    TypePair(start, to, change)
    for change, pairs in {
        Change.WIDENS: (
            (T.BFLOAT16, T.FLOAT),
            (T.FLOAT16, T.FLOAT),
            (T.FLOAT, T.DOUBLE),
            *_INTEGER4,
            *((start, to) for start in _FLOAT8 for to in (T.FLOAT16, T.FLOAT)),
        ),
        Change.ROUNDS: ((T.DOUBLE, T.FLOAT), (T.FLOAT, T.FLOAT16)),
        Change.BOUNDED: ((T.INT64, T.INT32),),
    }.items()
    for start, to in pairs
)


BY_NAMES = {(pair.start.name.lower(), pair.to.name.lower()): pair for pair in PAIRS}
# Names of element types in numpy, torch and other converters.
OTHER_NAMES = {
    "float32": "float", "fp32": "float", "float64": "double", "fp64": "double",
    "fp16": "float16", "half": "float16", "bf16": "bfloat16",
}  # fmt: skip


def name_of_type(word: str) -> str:
    """Returns ONNX's name of an element type, such as `float` for `float32`."""
    return OTHER_NAMES.get(word.lower(), word.lower())


def replacements(start: str) -> list[str]:
    """Returns the element types to which a request may change the type `start`."""
    return [to for source, to in BY_NAMES if source == start]
