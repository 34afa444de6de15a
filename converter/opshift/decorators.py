# SPDX-License-Identifier: Apache-2.0
"""The declarations of the author API: verdicts, examples, rules, and facts about operators.

Surroundings is here, because only the functions of declarations get one.
"""

from opshift.author.algebra import arithmetic, commutes
from opshift.author.example import example, shown
from opshift.author.misreadings import misread
from opshift.author.modern_rules import modern
from opshift.author.surroundings import Surroundings
from opshift.author.traits import (
    by_value,
    by_width,
    carries,
    chooses,
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
    adapter,
    alternative,
    boundary,
    form,
    impossible,
    in_other_words,
    leaving,
    retired,
)

__all__ = [
    "Surroundings",
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
    "example",
    "fatal_sizes",
    "flaw",
    "fold",
    "form",
    "fragile",
    "illegal",
    "impossible",
    "in_other_words",
    "leaving",
    "misread",
    "modern",
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
