# SPDX-License-Identifier: Apache-2.0
"""Chooses which calls into onnx's C++ code run in a child process (`protos.isolation`)."""

from __future__ import annotations

import enum
import os

VARIABLE = "OPSHIFT_ISOLATE"


class Isolation(enum.Enum):
    """The calls into onnx's C++ code that run in a child process."""

    NEVER = "never"
    RISKY = "risky"  # calls that are not known to be safe
    ALWAYS = "always"


_default = Isolation.NEVER


def set_default(isolation: Isolation) -> None:
    """Sets the isolation of this process, unless the environment variable names another one."""
    global _default
    _default = isolation


def usual() -> Isolation:
    """Returns the isolation that is used if the caller chose none."""
    word = os.environ.get(VARIABLE, "")
    if not word:
        return _default
    try:
        return Isolation(word)
    except ValueError:
        words = ", ".join(member.value for member in Isolation)
        raise ValueError(f"{VARIABLE} is {word!r}; set it to one of {words}") from None
