# SPDX-License-Identifier: Apache-2.0
"""Which calls into the C++ code of onnx a child process makes; see `protos.isolation`."""

from __future__ import annotations

import enum
import os

VARIABLE = "OPSHIFT_ISOLATE"


class Isolation(enum.Enum):
    """Which calls a child process makes."""

    NEVER = "never"
    RISKY = "risky"  # those that are not known to be safe
    ALWAYS = "always"


_default = Isolation.NEVER


def set_default(isolation: Isolation) -> None:
    """Sets the isolation of this process; the environment may name another one."""
    global _default
    _default = isolation


def usual() -> Isolation:
    """The isolation of calls without a choice of the caller."""
    word = os.environ.get(VARIABLE, "")
    if not word:
        return _default
    try:
        return Isolation(word)
    except ValueError:
        known = ", ".join(one.value for one in Isolation)
        raise ValueError(f"{VARIABLE} is {word!r}; set it to one of {known}") from None
