# SPDX-License-Identifier: Apache-2.0
"""Starts the Pythons of opshift without the working folder on their path.

Python puts the working folder in front of its path for `-c` and `-m`. A folder of models can hold
a `google.py`, which a child process would import and run.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

# The option that leaves the folder out. Without it, Python 3.13 imports a module from there before
# it runs the first line of a command.
_SAFE = "-P" if sys.version_info >= (3, 11) else "-I"
_lock = threading.Lock()
_usual = list[Any]()  # one entry for each use that has not ended


def search_path() -> list[str]:
    """The folders in which a child process finds modules: the named folders of this process."""
    return [folder for folder in sys.path if folder]


def command(module: str, *arguments: str) -> list[str]:
    """The command that calls the function `main` of a module in another process."""
    start = f"import sys; sys.path[:] = {search_path()!a}; from {module} import main; main()"
    return [sys.executable, _SAFE, "-c", start, *arguments]


def other_command(python: str, script: str, *arguments: str) -> list[str]:
    """The command that runs a script in the Python of another environment.

    The script has to remove its own folder from the path, because `python` may be a shell script
    that gives Python folders by PYTHONPATH, which the options for an isolated start would ignore.
    """
    return [python, script, *arguments]


def bare_environment() -> dict[str, str]:
    """The environment of another Python: without our paths, other programs, and package indexes.

    Some packages call pip when they are imported, and some add a backtrace to each message.
    """
    found = {name: value for name, value in os.environ.items() if not _DROPPED.match(name)}
    if os.name == "posix":
        found["PATH"] = os.defpath
    return {**found, "PIP_NO_INDEX": "1", "UV_OFFLINE": "1", "npm_config_offline": "true"}


_DROPPED = re.compile(
    r"(PYTHON|PIP_|UV_|NPM_CONFIG_).*|.*_PROXY|RUST(_LIB)?_BACKTRACE", re.IGNORECASE
)


@contextlib.contextmanager
def safe_multiprocessing() -> Iterator[None]:
    """Makes multiprocessing, which others may call, leave the working folder out as well."""
    from multiprocessing import util

    flags: Any = util  # its stub does not have this function, which reads the options of Python
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
    """Removes the folder that `python -m` added to the path."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        first = sys.path[0] or os.curdir
        if os.path.realpath(first) == os.path.realpath(os.curdir):
            del sys.path[0]
