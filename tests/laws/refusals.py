# SPDX-License-Identifier: Apache-2.0
"""The reasons for which random models may be refused; any other refusal is a fault."""

from __future__ import annotations

from opshift import Refused, Why
from opshift.errors import RefusedNode

SEQUENCES = (
    "ConcatFromSequence SequenceAt SequenceConstruct SequenceInsert SequenceLength SplitToSequence"
)
KNOWN = {
    ((11, 10), Why.NOT_EXPRESSIBLE): SEQUENCES,  # given, or a result
    ((11, 10), Why.NEEDS_CONSTANT): SEQUENCES,  # given, so that nobody knows what is in them
    ((9, 8), Why.APPROXIMATE_ONLY): "Erf",  # of doubles
    ((8, 7), Why.NEEDS_RANK): "Expand",  # of strings, by a computed shape
    ((7, 6), Why.NOT_EXPRESSIBLE): "Atan Cos Sin",
    ((7, 6), Why.NEEDS_RANK): "Add Div Mul Sub",  # of what a Loop carries or ai.onnx.ml computes
    ((6, 5), Why.TYPE_NOT_AVAILABLE): "Tile",  # of strings
    ((5, 4), Why.TYPE_NOT_AVAILABLE): "Reshape",  # of strings
    ((4, 3), Why.TYPE_NOT_AVAILABLE): "Concat",  # of strings
}


def unexpected(refused: Refused) -> list[RefusedNode]:
    """Returns the nodes that were refused for another reason."""
    return [
        refusal
        for refusal in refused.refusals
        if refusal.op not in KNOWN.get((refusal.boundary, refusal.why), "").split()
    ]
