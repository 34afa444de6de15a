# SPDX-License-Identifier: Apache-2.0
"""Compares the results of two models. A call of the package, `verify(a, b)`, calls the function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.lazy import lazy, make_callable

if TYPE_CHECKING:
    from opshift.child_task import Limits
    from opshift.verify.model_pair import verify
    from opshift.verify.verification import Cause, Row, Side, Verification

__all__ = ["Cause", "Limits", "Row", "Side", "Verification", "verify"]

_HOMES = {
    "verification": ("Cause", "Row", "Side", "Verification"),
    "model_pair": ("Limits", "verify"),
}


__getattr__, __dir__ = lazy(__name__, _HOMES)
make_callable(__name__, "model_pair", "verify")
