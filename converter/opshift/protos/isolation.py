# SPDX-License-Identifier: Apache-2.0
"""Calls the C++ code of onnx in this process, or in a child process that may crash.

onnx's inference, checker and parser hang or crash on some models. The child process has limits of
time and memory, and after its end the next call starts another child.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from opshift.isolation_default import Isolation, usual
from opshift.protos.onnx_calls import CALLS, OnnxEnded

SECONDS = 20.0  # processor time for one call, and for all failed calls of one operation
MOST_DEATHS = 10  # the most child processes that may end in one operation


class _Verb:
    """The remaining time and failures for the calls of one operation, such as a conversion."""

    def __init__(self, isolation: Isolation) -> None:
        self.isolation = isolation
        self.deaths = 0
        self.reason = ""
        self.seconds = SECONDS


_verb: ContextVar[_Verb | None] = ContextVar("verb", default=None)


@contextlib.contextmanager
def isolated(requested: bool | None = None) -> Iterator[None]:
    """Chooses whether calls in this context use a child process; None means the default."""
    if requested is not None and not isinstance(requested, bool):
        raise TypeError(f"isolate must be True, False or None, not {requested!r}")
    if requested is None and _verb.get() is not None:
        yield
        return
    chosen = usual() if requested is None else Isolation.ALWAYS if requested else Isolation.NEVER
    before = _verb.set(_Verb(chosen))
    try:
        yield
    finally:
        _verb.reset(before)


def uses_child(*, risky: bool = False) -> bool:
    """Returns whether a call uses a child process; a `risky` call may crash or hang."""
    verb = _verb.get()
    isolation = usual() if verb is None else verb.isolation
    return isolation is Isolation.ALWAYS or (risky and isolation is Isolation.RISKY)


def call(name: str, *arguments: Any, risky: bool = False) -> Any:
    """Makes one of the calls in `onnx_calls`; raises OnnxEnded if its process crashes."""
    if not uses_child(risky=risky):
        return CALLS[name](*arguments)
    from opshift.protos import onnx_process

    verb = _verb.get() or _Verb(Isolation.ALWAYS)
    if verb.deaths >= MOST_DEATHS or verb.seconds <= 0:
        raise OnnxEnded(f"{verb.reason}; onnx is not called for this model again")
    try:
        return onnx_process.ask(name, arguments, verb.seconds)
    except OnnxEnded as ended:
        verb.reason = str(ended)
        verb.deaths += 1
        verb.seconds -= ended.seconds
        raise
