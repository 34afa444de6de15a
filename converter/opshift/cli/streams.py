# SPDX-License-Identifier: Apache-2.0
"""Opens the null device for each standard stream that the caller of the command has closed.

Otherwise a file could get the number of such a stream, and messages of C++ would go to the file.
A message that cannot be written, for example to a log on a full disk, ends no command.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

_STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}
closed = set[str]()
"""The standard streams that were closed when the command started."""


def fill() -> None:
    """Opens the null device for the closed standard streams."""
    for number, (name, mode) in enumerate(_STREAMS.items()):
        try:
            os.fstat(number)
        except OSError:
            closed.add(name)
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - until the end
    buffer = getattr(sys.stderr, "buffer", None)
    if type(getattr(buffer, "raw", buffer)) is io.FileIO:
        messages = io.BufferedWriter(_Messages(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(
            messages, sys.stderr.encoding, sys.stderr.errors, line_buffering=True
        )


class _Messages(io.FileIO):
    """The standard error, which accepts each message, even one that cannot be written."""

    def write(self, message: Any, /) -> int:
        try:
            return super().write(message)
        except OSError:
            return len(message)
