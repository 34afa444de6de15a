# SPDX-License-Identifier: Apache-2.0
"""Provides assertions for authors of operators and adapters: a model converts or is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.lazy import lazy

if TYPE_CHECKING:
    from opshift.testing.completeness import assert_complete
    from opshift.testing.example_models import (
        assert_example,
        example_model,
        example_target,
        examples,
    )
    from opshift.testing.input_sets import input_sets
    from opshift.testing.known import (
        assert_bounds,
        assert_fold,
        assert_ranks,
        assert_shapes,
        bound_rules,
        bounded,
        folded,
        folds,
        rank_rules,
        ranked,
        shape_rules,
    )
    from opshift.testing.meaning import gaps
    from opshift.testing.models import assert_invalid, assert_model_converts, assert_refused
    from opshift.testing.modern_examples import assert_modern, modern_model, modern_rules
    from opshift.testing.operators import assert_op_downgrades, assert_op_upgrades
    from opshift.testing.surveys import survey

__all__ = [
    "assert_bounds",
    "assert_complete",
    "assert_example",
    "assert_fold",
    "assert_invalid",
    "assert_model_converts",
    "assert_modern",
    "assert_op_downgrades",
    "assert_op_upgrades",
    "assert_ranks",
    "assert_refused",
    "assert_shapes",
    "bound_rules",
    "bounded",
    "example_model",
    "example_target",
    "examples",
    "folded",
    "folds",
    "gaps",
    "input_sets",
    "modern_model",
    "modern_rules",
    "rank_rules",
    "ranked",
    "shape_rules",
    "survey",
]

_HOMES = {
    "completeness": ("assert_complete",),
    "example_models": (
        "assert_example",
        "example_model",
        "example_target",
        "examples",
    ),
    "input_sets": ("input_sets",),
    "meaning": ("gaps",),
    "surveys": ("survey",),
    "known": (
        "assert_bounds",
        "assert_fold",
        "assert_ranks",
        "assert_shapes",
        "bound_rules",
        "bounded",
        "folded",
        "folds",
        "rank_rules",
        "ranked",
        "shape_rules",
    ),
    "models": (
        "assert_invalid",
        "assert_model_converts",
        "assert_refused",
    ),
    "modern_examples": (
        "assert_modern",
        "modern_model",
        "modern_rules",
    ),
    "operators": (
        "assert_op_downgrades",
        "assert_op_upgrades",
    ),
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
