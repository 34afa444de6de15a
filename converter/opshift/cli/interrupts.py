# SPDX-License-Identifier: Apache-2.0
"""Remembers the signals that interrupt a command."""

from __future__ import annotations

from typing import Any

# Modules in C may turn an interrupt into another error; this list still shows it.
RECEIVED: list[int] = []


def interrupt(number: int, _: Any) -> None:
    """Stores a signal, and interrupts the command as Ctrl-C does."""
    RECEIVED.append(number)
    raise KeyboardInterrupt
