# SPDX-License-Identifier: Apache-2.0
"""Placeholders for the names around a node, so that one record applies to many nodes."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(r"⟦\w+⟧")
_QUOTED = re.compile(r"'(⟦\w+⟧)'")
NODE = "⟦node⟧"


def value(number: int) -> str:
    """Returns the placeholder for a value of the model."""
    return f"⟦v{number}⟧"


def is_value(token: str) -> bool:
    """Returns whether a placeholder is for a value of the model, not for a new value."""
    return token.startswith("⟦v")


def reason(token: str) -> str:
    """Returns the placeholder for the reason why a value is not a constant."""
    return f"⟦why_{token[1:]}"


def symbol(number: int) -> str:
    """Returns the placeholder for the symbol of a dimension."""
    return f"⟦s{number}⟧"


def fresh(number: int) -> str:
    """Returns the placeholder for a new name."""
    return f"⟦f{number}⟧"


def constant(number: int) -> str:
    """Returns the placeholder for a new constant."""
    return f"⟦c{number}⟧"


def filled(text: str, meaning: Callable[[str], str]) -> str:
    """Returns a text with names for its placeholders; quoted placeholders become quoted names."""
    if "⟦" not in text:
        return text
    text = _QUOTED.sub(lambda found: repr(meaning(found[1])), text)
    return _TOKEN.sub(lambda found: meaning(found[0]), text)
