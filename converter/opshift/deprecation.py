# SPDX-License-Identifier: Apache-2.0
"""Old names that still work; each use warns and names the new name."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from opshift import terms
from opshift.text import printable

_P = ParamSpec("_P")
_R = TypeVar("_R")


def warn(old: str, new: str, gone_in: str, *, stacklevel: int = 2) -> None:
    """Warns that a name is old: Python by a DeprecationWarning, the command by a line on stderr."""
    text = f"{old} is deprecated and goes in opshift {gone_in}; use {new}"
    if terms.caller() is terms.Caller.COMMAND:
        print(f"warning: {printable(text)}", file=sys.stderr)
    else:
        warnings.warn(text, DeprecationWarning, stacklevel=stacklevel + 1)


def renamed(function: Callable[_P, _R], old: str, new: str, gone_in: str) -> Callable[_P, _R]:
    """The function under its old name, which warns at each call."""

    @functools.wraps(function)
    def under_old_name(*args: _P.args, **options: _P.kwargs) -> _R:
        warn(old, new, gone_in)
        return function(*args, **options)

    return under_old_name
