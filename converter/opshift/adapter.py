"""The author API: everything a file of adapters needs, and all it may import of the engine."""

from typing import TYPE_CHECKING

from opshift.assumptions import Assumption
from opshift.author.bounds import Bounds, for_all
from opshift.author.bounds import moved as moved_bounds
from opshift.author.builder import Builder
from opshift.author.node import Node, Value
from opshift.author.verdicts import (
    KEEP,
    Adapter,
    Array,
    ByValue,
    Carries,
    Differs,
    Example,
    Flaw,
    Fold,
    Fragile,
    Illegal,
    OutputBounds,
    OutputRanks,
    OutputShapes,
    OutputTypes,
    Result,
    ToldDims,
    adapter,
    alternative,
    boundary,
    by_value,
    carries,
    differs,
    example,
    flaw,
    fold,
    form,
    fragile,
    illegal,
    impossible,
    leaving,
    output_bounds,
    output_ranks,
    output_shapes,
    output_types,
    retired,
    shown,
)
from opshift.errors import AdapterBug, InvalidModel, Refusal, Why
from opshift.lazy import deferred
from opshift.model.arrays import dtype_of
from opshift.opsets.elements import T
from opshift.protos import GraphProto, ValueInfoProto

if TYPE_CHECKING:
    import numpy as np
else:
    np = deferred("numpy")  # many conversions need none of it

__all__ = [
    "KEEP",
    "Adapter",
    "AdapterBug",
    "Array",
    "Assumption",
    "Bounds",
    "Builder",
    "ByValue",
    "Carries",
    "Differs",
    "Example",
    "Flaw",
    "Fold",
    "Fragile",
    "GraphProto",
    "Illegal",
    "InvalidModel",
    "Node",
    "OutputBounds",
    "OutputRanks",
    "OutputShapes",
    "OutputTypes",
    "Refusal",
    "Result",
    "T",
    "ToldDims",
    "Value",
    "ValueInfoProto",
    "Why",
    "adapter",
    "alternative",
    "boundary",
    "by_value",
    "carries",
    "differs",
    "dtype_of",
    "example",
    "flaw",
    "fold",
    "for_all",
    "form",
    "fragile",
    "illegal",
    "impossible",
    "leaving",
    "moved_bounds",
    "np",
    "output_bounds",
    "output_ranks",
    "output_shapes",
    "output_types",
    "retired",
    "shown",
]
