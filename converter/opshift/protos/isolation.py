# SPDX-License-Identifier: Apache-2.0
"""Calls the C++ code of onnx in this process, or in a child that a model may end without harm.

onnx's inference, checker and parser hang or end the process at some models. The child has limits
of time and memory, and after its end the next call starts another one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from opshift.isolation_default import Isolation, usual
from opshift.protos.onnx_calls import CALLS, OnnxEnded

SECONDS = 20.0  # of processor time for one call, and for all calls of one verb that do not end
MOST_DEATHS = 10  # of children in one verb


class _Verb:
    """The cost that the calls of one verb may still have."""

    def __init__(self, isolation: Isolation) -> None:
        self.isolation = isolation
        self.deaths = 0
        self.reason = ""
        self.seconds = SECONDS


_verb: ContextVar[_Verb | None] = ContextVar("verb", default=None)


@contextlib.contextmanager
def isolated(wanted: bool | None = None) -> Iterator[None]:
    """Makes the calls inside in a child or not; None leaves it to the process."""
    if wanted is None and _verb.get() is not None:
        yield
        return
    chosen = usual() if wanted is None else Isolation.ALWAYS if wanted else Isolation.NEVER
    before = _verb.set(_Verb(chosen))
    try:
        yield
    finally:
        _verb.reset(before)


def uses_child(*, risky: bool = False) -> bool:
    """Whether a call is made in a child; `risky` calls are not known to be safe."""
    verb = _verb.get()
    isolation = usual() if verb is None else verb.isolation
    return isolation is Isolation.ALWAYS or (risky and isolation is Isolation.RISKY)


def call(name: str, *arguments: Any, risky: bool = False) -> Any:
    """The answer of one of `onnx_calls`; raises its errors, or OnnxEnded."""
    if not uses_child(risky=risky):
        return CALLS[name](*arguments)
    from opshift.protos import onnx_process

    verb = _verb.get() or _Verb(Isolation.ALWAYS)
    if verb.deaths >= MOST_DEATHS or verb.seconds <= 0:
        raise OnnxEnded(f"{verb.reason}; it is not called for this model again")
    try:
        return onnx_process.ask(name, arguments, verb.seconds)
    except OnnxEnded as ended:
        verb.reason = str(ended)
        verb.deaths += 1
        verb.seconds -= ended.seconds
        raise
