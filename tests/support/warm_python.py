# SPDX-License-Identifier: Apache-2.0
"""A Python that starts as a fork of one that has imported the packages, at a tenth of the cost.

`python(paths)` is a program like `sys.executable`, for any process of a test that is not about the
start of Python itself. It is a process with arguments, streams, environment, folder, signals and
exit code of its own; only the imports are those of a server, which has the module path of the test.
"""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

SERVER = Path(__file__).with_name("warm_server.py")
CLIENT = Path(__file__).with_name("warm_client.py")
ERRORS = "errors"
FAILED = "the server of the tests ended early, later commands ran in new Pythons; its exit code:"
MODULES = (
    "opshift.cli.entry",
    "opshift.verify.guest",
    "opshift.verify.pair",
    "opshift_adapters",
    "onnx.reference",
)


def python(paths: Iterable[str] = ()) -> str:
    """Returns a Python that finds its modules on these paths, or on those of this process."""
    return _python(os.getpid(), tuple(paths) or tuple(path for path in sys.path if path))


@functools.lru_cache(None)
def _python(_: int, paths: tuple[str, ...]) -> str:
    if not hasattr(os, "pidfd_open"):
        return sys.executable
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    program, address = folder / "python", folder / "socket"
    program.write_text(
        _PROGRAM.format(*map(shlex.quote, (sys.executable, f"{CLIENT}", f"{address}")))
    )
    program.chmod(0o755)
    with open(folder / ERRORS, "wb") as errors:  # pytest would show them with some other test
        server = subprocess.Popen(
            [sys.executable, SERVER, address, program, *MODULES],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, cwd=folder,
        )  # fmt: skip
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    atexit.register(_end, server, folder, os.getpid())
    return str(program)


_PROGRAM = """#!/bin/sh
exec {0} -I -S {1} {2} {0} "$@"
"""


def _end(server: subprocess.Popen[bytes], folder: Path, owner: int) -> None:
    """Ends a server in the process that has started it, and reports a server that failed."""
    if os.getpid() == owner:
        server.communicate()
        if server.returncode:
            errors = (folder / ERRORS).read_text("utf-8", "replace")
            print(f"{FAILED} {server.returncode}\n{errors}".rstrip(), file=sys.stderr)
        shutil.rmtree(folder)
