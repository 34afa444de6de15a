# SPDX-License-Identifier: Apache-2.0
"""Supports deprecated names: each use works, warns, and names the replacement."""

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
    """Warns about a deprecated name with a DeprecationWarning, or for the command on stderr."""
    text = f"{old} is deprecated and will be removed in opshift {gone_in}; use {new}"
    if terms.caller() is terms.Caller.COMMAND:
        print(f"warning: {printable(text)}", file=sys.stderr)
    else:
        warnings.warn(text, DeprecationWarning, stacklevel=stacklevel + 1)


def renamed(function: Callable[_P, _R], old: str, new: str, gone_in: str) -> Callable[_P, _R]:
    """Returns a function with the old name; each call of it warns."""

    @functools.wraps(function)
    def under_old_name(*args: _P.args, **options: _P.kwargs) -> _R:
        warn(old, new, gone_in)
        return function(*args, **options)

    under_old_name.__name__ = under_old_name.__qualname__ = old.rpartition(".")[2]  # for pickle
    return under_old_name
