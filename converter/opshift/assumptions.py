# SPDX-License-Identifier: Apache-2.0
"""Names the assumptions about a model that a caller may allow; `codes` has a page for each."""

from __future__ import annotations

import enum

from opshift import codes


class Assumption(enum.Enum):
    """A property of a model that a conversion may rely on although the model does not state it."""

    NO_ZERO_DIMS = "no-zero-dims"

    @property
    def clause(self) -> str:
        """Returns the clause that the report adds to a node that relies on the assumption."""
        return _CLAUSES[self]

    @property
    def cure(self) -> str:
        """Returns the text that says how a user allows the assumption, and when it is safe."""
        return codes.page(self.name).cure


_CLAUSES = {Assumption.NO_ZERO_DIMS: "no dimension of a tensor is 0"}
NAMES = tuple(assumption.value for assumption in Assumption)
