# SPDX-License-Identifier: Apache-2.0
"""A process that compares models, so that an engine which ends its process ends no test run."""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import IO, Any

from opshift.protos import ModelProto


class JudgeProcess:
    """Compares pairs of models in a child, which is started again when it ends."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def compare(
        self, before: ModelProto, after: ModelProto, inputs: Mapping[str, Any],
        sets: Sequence[str], tolerance: tuple[float, float] = (0.0, 0.0),
    ) -> list[tuple[str, str]]:  # fmt: skip
        """Each set that the original has an answer for, and how the result differs, or ""."""
        found: dict[str, str] = {}
        models = before.SerializeToString(), after.SerializeToString()
        waiting, runtime = list(sets), True
        while waiting:
            order = (*models, dict(inputs), waiting, tolerance, runtime)
            begun, answered, code = self._ask(order, found)
            if code is None:
                break
            if answered:  # the original has an answer, so the result ended the process
                found[begun] = f"the process ended with exit code {code}"
            elif not begun and not runtime:
                raise RuntimeError(f"the judge ended with exit code {code} before any inputs")
            elif not begun or begun == "given":  # onnxruntime cannot run the original
                runtime = False
                continue
            waiting = waiting[waiting.index(begun) + 1 :]
        return list(found.items())

    def _ask(self, order: Any, found: dict[str, str]) -> tuple[str, bool, int | None]:
        """The last set that began, whether the original answered it, and the child's exit code."""
        child = self._started()
        begun, answered = "", False
        try:
            pickle.dump(order, _pipe(child.stdin))
            _pipe(child.stdin).flush()
            while (step := pickle.load(_pipe(child.stdout))) is not None:
                name, told = step
                answered = told is not None
                begun = name
                if told is not None:
                    found[name] = told
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self._child = None
            return begun, answered, child.wait()
        return begun, answered, None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            words = [sys.executable, "-m", __name__]
            path = os.pathsep.join(filter(None, sys.path))
            self._child = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        return self._child

    def close(self) -> None:
        """Ends the child."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                _pipe(pipe).close()


@cache
def shared() -> JudgeProcess:
    """The one that the assertions of this process use."""
    return JudgeProcess()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # both are asked for when the child is started
    return pipe


def main() -> None:
    """Answers orders from the standard input until it ends; other output goes nowhere."""
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


if __name__ == "__main__":
    main()
