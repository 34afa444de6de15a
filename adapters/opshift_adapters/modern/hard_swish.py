# SPDX-License-Identifier: Apache-2.0
"""HardSwish from Clip, as exporters write it."""

from opshift.adapter import Formula, Term, modern


# not derived: the adapter writes HardSigmoid, as onnx defines the operator
@modern("HardSwish", since=14)
def hard_swish(op: Formula, x: Term) -> Term:
    """Matches x * Clip(x + 3, 0, 6) / 6."""
    return x * op.Clip(x + 3, 0, 6) / 6
