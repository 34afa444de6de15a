# SPDX-License-Identifier: Apache-2.0
"""Parses and prints ONNX's text format (.onnxtxt) with its C++ code."""

from __future__ import annotations

import re

from opshift.protos import isolation

MOST_LEVELS = 200  # the most nested brackets; protobuf cannot read messages that would need more
_SIGN = re.compile(r'"(?:\\.|[^"\\])*"?|#[^\n]*|[([{]|[)\]}]', re.DOTALL)


def parse(text: str) -> bytes:
    """Parses a model; raises ValueError if the text is not a model.

    The parser recurses for each bracket and crashes the process if the stack overflows.
    """
    level = 0
    for match in _SIGN.finditer(text):
        sign = match[0]
        level += (sign in "([{") - (sign in ")]}")
        if level > MOST_LEVELS:
            line = text.count("\n", 0, match.start()) + 1
            raise ValueError(f"more than {MOST_LEVELS} brackets are open in line {line}")
    model: bytes = isolation.call("parse_model", text, risky=True)
    return model


def written(model: bytes) -> str:
    """Prints a model in ONNX's text format."""
    text: str = isolation.call("print_model", model, risky=True)
    return text
