"""The author API: everything a file of adapters needs, and all it may import of the engine."""

from opshift.arrays import dtype_of
from opshift.builder import Builder
from opshift.declare import (
    KEEP,
    Adapter,
    Array,
    ByValue,
    Example,
    Flaw,
    Fold,
    Fragile,
    Illegal,
    Result,
    adapter,
    boundary,
    by_value,
    example,
    flaw,
    fold,
    fragile,
    illegal,
    impossible,
    retired,
    shown,
)
from opshift.elements import T
from opshift.errors import AdapterBug, InvalidModel, Refusal, Why
from opshift.node import Node, Value

__all__ = [
    "KEEP",
    "Adapter",
    "AdapterBug",
    "Array",
    "Builder",
    "ByValue",
    "Example",
    "Flaw",
    "Fold",
    "Fragile",
    "Illegal",
    "InvalidModel",
    "Node",
    "Refusal",
    "Result",
    "T",
    "Value",
    "Why",
    "adapter",
    "boundary",
    "by_value",
    "dtype_of",
    "example",
    "flaw",
    "fold",
    "fragile",
    "illegal",
    "impossible",
    "retired",
    "shown",
]
