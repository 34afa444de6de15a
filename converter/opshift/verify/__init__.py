# SPDX-License-Identifier: Apache-2.0
"""Whether two models compute the same, shown by running both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.lazy import lazy

if TYPE_CHECKING:
    from opshift.verify.child import Limits
    from opshift.verify.outcome import Cause, Row, Side, Verification
    from opshift.verify.run import verify

__all__ = ["Cause", "Limits", "Row", "Side", "Verification", "verify"]

_HOMES = {
    "child": ("Limits",),
    "outcome": ("Cause", "Row", "Side", "Verification"),
    "run": ("verify",),
}


__getattr__, __dir__ = lazy(__name__, _HOMES)
