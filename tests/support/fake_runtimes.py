# SPDX-License-Identifier: Apache-2.0
"""Python interpreters that have a stub of a runtime."""

from __future__ import annotations

import faulthandler
import json
import os
import runpy
import shlex
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

STUBS = Path(__file__).with_name("fake_runtime")
RULES: dict[str, dict[str, str]] = {}
"""The rules of each interpreter that was created, by path."""


def fake_python(folder: Path, rules: dict[str, str], *, stubs: Path = STUBS) -> str:
    """An interpreter whose onnxruntime does not run some operators or opsets."""
    path = folder / "python"
    environment = f"FAKE_RUNTIME={shlex.quote(json.dumps(rules))} PYTHONPATH={stubs}"
    path.write_text(f'#!/bin/sh\n{environment} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    RULES[str(path)] = rules
    return str(path)


class Forked:
    """A fork of this process in place of a fake interpreter, so that nothing is imported again."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self.code: int | None = None
        self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                faulthandler.disable()  # its death is a part of the test
                _run(command, **options)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)

    def wait(self, seconds: float | None = None) -> int:
        """Returns the exit code, or minus the signal that ended the process."""
        until = None if seconds is None else time.monotonic() + seconds
        while self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG if until else 0)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            elif until and time.monotonic() > until:
                raise subprocess.TimeoutExpired("a fork", seconds or 0)
            else:
                time.sleep(0.002)
        return self.code


def _run(command: list[str], **options: Any) -> None:
    """Runs a script as the interpreter would do, with the stub of the runtime."""
    os.setsid()
    os.dup2(options["stdout"].fileno(), 1)
    os.dup2(1, 2)
    os.chdir(options["cwd"])
    os.environ.clear()
    os.environ.update(options["env"], FAKE_RUNTIME=json.dumps(RULES[command[0]]))
    sys.modules.pop("onnxruntime", None)
    sys.path.insert(0, str(STUBS))
    sys.argv = command[1:]
    runpy.run_path(command[1], run_name="__main__")


def popen(command: list[str], **options: Any) -> Any:
    """Starts a process; one of a fake interpreter is a fork."""
    start = Forked if command[0] in RULES and sys.platform == "linux" else subprocess.Popen
    return start(command, **options)
