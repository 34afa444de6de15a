# SPDX-License-Identifier: Apache-2.0
"""The assumptions about a model that a caller may allow, by name; each has a page in `codes`."""

from __future__ import annotations

import enum

from opshift import codes


class Assumption(enum.Enum):
    """A property that a conversion may rely on although the model does not state it."""

    NO_ZERO_DIMS = "no-zero-dims"

    @property
    def clause(self) -> str:
        """The clause about a node that relies on the assumption, for the report."""
        return _CLAUSES[self]

    @property
    def cure(self) -> str:
        """How a user allows it, and when that is right."""
        return codes.page(self.name).cure


_CLAUSES = {Assumption.NO_ZERO_DIMS: "no dimension of its tensors is 0"}
NAMES = tuple(one.value for one in Assumption)
