# SPDX-License-Identifier: Apache-2.0
"""Runs models in a child process of another interpreter, and restarts it after a crash."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from pathlib import Path
from typing import Any

import onnx
from opshift.verify.other_runtime import GUEST

from .install import Installed

CHILD = Path(__file__).with_name("runtime_child.py")


class Runner:
    """Sends one model after another to a child process with an installed runtime."""

    def __init__(self, runtime: Installed, seconds: float = 60, child: Path = CHILD) -> None:
        self.runtime, self.seconds, self.child = runtime, seconds, child
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()

    def judge(self, model: Path, folder: Path) -> dict[str, str]:
        """Returns the outcome of a model: right, wrong, not run, not loaded, crash or timeout."""
        graph = onnx.load(model, load_external_data=False).graph
        constants = {tensor.name for tensor in graph.initializer}
        return self.ask({
            "runtime": self.runtime.name, "model": str(model), "folder": str(folder),
            "site": self.runtime.site,
            "inputs": [info.name for info in graph.input if info.name not in constants],
            "outputs": [info.name for info in graph.output],
        })  # fmt: skip

    def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer of the child process, or the outcome crash or timeout."""
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()
            answer = self._answer()
        except BrokenPipeError:
            answer = None
        except queue.Empty:
            self.close()
            return {"outcome": "timeout", "why": f"not done in {self.seconds:g} s"}
        if answer is not None:
            return answer
        code = process.wait()
        self.close()
        return {"outcome": "crash", "why": f"signal {-code}" if code < 0 else f"exit code {code}"}

    def _answer(self) -> dict[str, Any] | None:
        while (line := self._lines.get(timeout=self.seconds)) is not None:
            if line.startswith("@@"):
                reply: dict[str, Any] = json.loads(line[2:])
                return reply
        return None

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._lines = queue.Queue()
            self._process = subprocess.Popen(
                [self.runtime.python, str(self.child), str(GUEST)],
                env=self.runtime.environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()
        return self._process

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)
