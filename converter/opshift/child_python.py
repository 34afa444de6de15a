# SPDX-License-Identifier: Apache-2.0
"""Starts Python processes of opshift without the working folder on their module path.

Python puts the working folder first on its path for `-c` and `-m`. A folder of models can contain a
`google.py`, which a child process would import and run.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

# The Python option that keeps the working folder off the path. Without it, Python 3.13 imports a
# module from that folder before it runs the first line of a command.
_SAFE = "-P" if sys.version_info >= (3, 11) else "-I"
_lock = threading.Lock()
_usual = list[Any]()  # one entry for each open context of safe_multiprocessing


def search_path() -> list[str]:
    """Returns the module path for a child process: all entries of `sys.path` but empty ones."""
    return [folder for folder in sys.path if folder]


def command(module: str, *arguments: str) -> list[str]:
    """Returns the command that calls `main` of a module in another Python process."""
    start = f"import sys; sys.path[:] = {search_path()!a}; from {module} import main; main()"
    return [sys.executable, _SAFE, "-c", start, *arguments]


def other_command(python: str, script: str, *arguments: str) -> list[str]:
    """Returns the command that runs a script in the Python of another environment.

    The script has to remove its own folder from the path. Python's options for an isolated start
    cannot be used, because they ignore PYTHONPATH, which a shell script named `python` may set.
    """
    return [python, script, *arguments]


def bare_environment() -> dict[str, str]:
    """Returns an environment for another Python without our paths, proxies and package indexes.

    Some packages call pip during their import, and some print a backtrace with each message if
    RUST_BACKTRACE is set.
    """
    variables = {name: value for name, value in os.environ.items() if not _DROPPED.match(name)}
    if os.name == "posix":
        variables["PATH"] = os.defpath
    return {**variables, "PIP_NO_INDEX": "1", "UV_OFFLINE": "1", "npm_config_offline": "true"}


_DROPPED = re.compile(
    r"(PYTHON|PIP_|UV_|NPM_CONFIG_).*|.*_PROXY|RUST(_LIB)?_BACKTRACE", re.IGNORECASE
)


@contextlib.contextmanager
def safe_multiprocessing() -> Iterator[None]:
    """Makes multiprocessing start its processes without the working folder on the path as well."""
    from multiprocessing import util

    flags: Any = util  # the stub lacks this private function, which returns Python's options
    with _lock:
        _usual.append(_usual[0] if _usual else flags._args_from_interpreter_flags)
        usual = _usual[0]
        flags._args_from_interpreter_flags = lambda: [_SAFE, *usual()]
    try:
        yield
    finally:
        with _lock:
            usual = _usual.pop()
            if not _usual:
                flags._args_from_interpreter_flags = usual


def leave_working_folder() -> None:
    """Removes the working folder that `python -m` put first on the module path."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        first = sys.path[0] or os.curdir
        if os.path.realpath(first) == os.path.realpath(os.curdir):
            del sys.path[0]
