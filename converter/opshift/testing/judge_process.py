# SPDX-License-Identifier: Apache-2.0
"""Compares models in a child process, so that the crash of an engine does not end the tests."""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import IO, Any

from opshift import child_python
from opshift.protos import ModelProto

SECONDS = 600.0  # the limit for one set of inputs; the slowest example takes a hundredth of it


class JudgeProcess:
    """Compares pairs of models in a child process, which is restarted after a crash."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def compare(
        self, before: ModelProto, after: ModelProto, inputs: Mapping[str, Any],
        sets: Sequence[str], tolerance: tuple[float, float] = (0.0, 0.0),
    ) -> list[tuple[str, str]]:  # fmt: skip
        """Returns the sets of inputs that the original accepts, each with a difference or ""."""
        differences: dict[str, str] = {}
        models = before.SerializeToString(), after.SerializeToString()
        waiting, runtime = list(sets), True
        while waiting:
            order = (*models, dict(inputs), waiting, tolerance, runtime)
            begun, answered, end = self._ask(order, differences)
            if not end:
                break
            if answered:  # the original has a result, so the converted model crashed
                differences[begun] = f"the process {end}"
            elif not begun and not runtime:
                raise RuntimeError(f"the child process {end} before it ran any inputs")
            elif runtime and (not begun or begun == "given"):  # onnxruntime crashes on the original
                runtime = False
                continue
            waiting = waiting[waiting.index(begun) + 1 :]
        return list(differences.items())

    def _ask(self, order: Any, differences: dict[str, str]) -> tuple[str, bool, str]:
        """Returns the set that began last, whether the original ran, and how the child ended."""
        child = self._started()
        begun, answered, late = "", False, threading.Event()
        try:
            pickle.dump(order, _pipe(child.stdin))
            _pipe(child.stdin).flush()
            while (step := self._step(child, late)) is not None:
                name, difference = step
                answered = difference is not None
                begun = name
                if difference is not None:
                    differences[name] = difference
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self._child = None
            code = child.wait()
            limit = f"was ended after {self._seconds:g} s without an answer"
            return begun, answered, limit if late.is_set() else f"ended with exit code {code}"
        return begun, answered, ""

    def _step(self, child: subprocess.Popen[bytes], late: threading.Event) -> Any:
        """Reads the next answer of the child process, which is killed if it takes too long."""

        def end() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(self._seconds, end)
        timer.start()
        try:
            return pickle.load(_pipe(child.stdout))
        finally:
            timer.cancel()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = subprocess.Popen(
                child_python.command(__name__),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        return self._child

    def close(self) -> None:
        """Ends the child process."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                _pipe(pipe).close()


@cache
def shared() -> JudgeProcess:
    """Returns the JudgeProcess that all assertions in this process share."""
    return JudgeProcess()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # both pipes exist, because Popen was called with PIPE
    return pipe


def main() -> None:
    """Answers requests until standard input ends; discards other output."""
    from opshift.testing.compared import compared

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            order = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        before, after, inputs, sets, (rtol, atol), runtime = order
        models = ModelProto.FromString(before), ModelProto.FromString(after)
        for step in compared(*models, inputs, sets, rtol=rtol, atol=atol, runtime=runtime):
            pickle.dump(step, answers)
            answers.flush()
        pickle.dump(None, answers)
        answers.flush()
