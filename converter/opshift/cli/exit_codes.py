# SPDX-License-Identifier: Apache-2.0
"""Defines the exit codes of the command, for errors and for calls with several models."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opshift.errors import OpshiftError

DONE = 0
REFUSED = 1
BAD_INPUT = 2
BUG = 3
WOULD_CHANGE = 4
NOT_KNOWN = 5
INTERRUPTED = 130
MEANINGS = {
    DONE: "done, or nothing to do",
    REFUSED: "the conversion is impossible, the models differ, or the model is invalid",
    BAD_INPUT: "the command line, a file or the environment has an error",
    BUG: "opshift or an adapter has a bug",
    WOULD_CHANGE: "--check: the conversion is possible and would change the model",
    NOT_KNOWN: "opshift does not know whether the model can be used",
    INTERRUPTED: "interrupted",
}
GRAVEST = (BUG, BAD_INPUT, REFUSED, NOT_KNOWN, WOULD_CHANGE, DONE)


def of_error(error: OpshiftError) -> int:
    """Returns the exit code for an error that is not a bug of opshift or of an adapter."""
    return REFUSED if error.code == "INVALID_MODEL" else BAD_INPUT


def of_several(codes: Set[int]) -> int:
    """Returns the exit code for several models, which is the worst code of a single model."""
    return next((code for code in GRAVEST if code in codes), max(codes, default=DONE))


def table() -> str:
    """Returns the exit codes and their meanings, for the help of the command."""
    head, *rows = (f"{code:<3}  {meaning}" for code, meaning in MEANINGS.items())
    return "\n".join([f"Exit codes: {head}", *(f"{'':12}{row}" for row in rows)])
