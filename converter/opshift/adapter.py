# SPDX-License-Identifier: Apache-2.0
"""Exports the names for adapter files, which may import no other module of opshift."""

from typing import TYPE_CHECKING

from opshift.assumptions import Assumption
from opshift.author.attributes import CONSTANT_FORMS
from opshift.author.bounds import Bounds, for_all
from opshift.author.builder import Builder
from opshift.author.example import Example, example, shown
from opshift.author.misreadings import Misread, misread
from opshift.author.modern_rules import Found, Modern, modern
from opshift.author.moved_bounds import moved as moved_bounds
from opshift.author.node import KEEP, Node, Result, Value
from opshift.author.surroundings import Surroundings
from opshift.author.traits import (
    Arithmetic,
    ByValue,
    ByWidth,
    Carries,
    Chooses,
    Commutes,
    Differs,
    FatalSizes,
    Flaw,
    Fold,
    Fragile,
    Illegal,
    OutputBounds,
    OutputRanks,
    OutputShapes,
    OutputTypes,
    Saturates,
    Scales,
    Shrinks,
    ToldDims,
    Undefaulted,
    arithmetic,
    by_value,
    by_width,
    carries,
    chooses,
    commutes,
    differs,
    fatal_sizes,
    flaw,
    fold,
    fragile,
    illegal,
    output_bounds,
    output_ranks,
    output_shapes,
    output_types,
    saturates,
    scales,
    shrinks,
    undefaulted,
)
from opshift.author.verdicts import (
    Adapter,
    adapter,
    alternative,
    boundary,
    form,
    impossible,
    in_other_words,
    leaving,
    retired,
)
from opshift.codes.refusals import Why
from opshift.errors import AdapterBug, InvalidModel, Refusal
from opshift.lazy import lazy
from opshift.lazy import numpy as np
from opshift.model.arrays import Array, dtype_of
from opshift.opsets.elements import T
from opshift.protos import GraphProto, ValueInfoProto

if TYPE_CHECKING:
    from opshift.author.formula import Formula, Term
else:  # imported late, because many conversions need no formulas
    __getattr__, _ = lazy("opshift.author", {"formula": ("Formula", "Term")})

__all__ = [
    "CONSTANT_FORMS",
    "KEEP",
    "Adapter",
    "AdapterBug",
    "Arithmetic",
    "Array",
    "Assumption",
    "Bounds",
    "Builder",
    "ByValue",
    "ByWidth",
    "Carries",
    "Chooses",
    "Commutes",
    "Differs",
    "Example",
    "FatalSizes",
    "Flaw",
    "Fold",
    "Formula",
    "Found",
    "Fragile",
    "GraphProto",
    "Illegal",
    "InvalidModel",
    "Misread",
    "Modern",
    "Node",
    "OutputBounds",
    "OutputRanks",
    "OutputShapes",
    "OutputTypes",
    "Refusal",
    "Result",
    "Saturates",
    "Scales",
    "Shrinks",
    "Surroundings",
    "T",
    "Term",
    "ToldDims",
    "Undefaulted",
    "Value",
    "ValueInfoProto",
    "Why",
    "adapter",
    "alternative",
    "arithmetic",
    "boundary",
    "by_value",
    "by_width",
    "carries",
    "chooses",
    "commutes",
    "differs",
    "dtype_of",
    "example",
    "fatal_sizes",
    "flaw",
    "fold",
    "for_all",
    "form",
    "fragile",
    "illegal",
    "impossible",
    "in_other_words",
    "leaving",
    "misread",
    "modern",
    "moved_bounds",
    "np",
    "output_bounds",
    "output_ranks",
    "output_shapes",
    "output_types",
    "retired",
    "saturates",
    "scales",
    "shown",
    "shrinks",
    "undefaulted",
]
