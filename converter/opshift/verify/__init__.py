"""Whether two models compute the same, shown by running both."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opshift.verify.child import Limits
    from opshift.verify.outcome import Cause, Row, Side, Verification
    from opshift.verify.run import verify

__all__ = ["Cause", "Limits", "Row", "Side", "Verification", "verify"]

# Whoever wants the judge alone must not load the rest.
_HOMES = {
    "child": ("Limits",),
    "outcome": ("Cause", "Row", "Side", "Verification"),
    "run": ("verify",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"opshift.verify.{home}"), name)
    raise AttributeError(f"module 'opshift.verify' has no attribute {name!r}")
