# SPDX-License-Identifier: Apache-2.0
"""The text form of onnx (.onnxtxt), read and written by its C++ code."""

from __future__ import annotations

import re

from opshift.protos import isolation

MOST_LEVELS = 200  # brackets in brackets; a message that protobuf reads needs fewer
_SIGN = re.compile(r'"(?:\\.|[^"\\])*"?|#[^\n]*|[([{]|[)\]}]', re.DOTALL)


def parse(text: str) -> bytes:
    """The model of a text; raises ValueError if it is none.

    The parser follows brackets on its stack and ends the process when the stack is used up.
    """
    level = 0
    for found in _SIGN.finditer(text):
        sign = found[0]
        level += (sign in "([{") - (sign in ")]}")
        if level > MOST_LEVELS:
            line = text.count("\n", 0, found.start()) + 1
            raise ValueError(f"more than {MOST_LEVELS} brackets are open in line {line}")
    model: bytes = isolation.call("parse_model", text, risky=True)
    return model


def written(model: bytes) -> str:
    """The text of a model."""
    text: str = isolation.call("print_model", model, risky=True)
    return text
