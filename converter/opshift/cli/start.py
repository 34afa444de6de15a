# SPDX-License-Identifier: Apache-2.0
"""Starts the command. This module imports the command only after it has set up the signals."""

from __future__ import annotations

import os
import signal
from typing import Any

from opshift.cli import streams
from opshift.cli.exit_codes import INTERRUPTED


def run(prog_name: str | None = None) -> None:
    """Runs the command as the main function of a process; SIGTERM ends it as Ctrl-C does."""
    streams.fill()
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)
    try:
        from opshift.cli import entry

        entry.run(prog_name)
    except KeyboardInterrupt:  # outside of a command
        os.write(2, b"error: interrupted; nothing was written\n")
        os._exit(INTERRUPTED)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
