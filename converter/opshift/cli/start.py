# SPDX-License-Identifier: Apache-2.0
"""Starts the command. This module imports the command only after it has set up the signals."""

from __future__ import annotations

import gc
import os
import signal

from opshift.child_limits import STOPS
from opshift.cli import interrupts, streams
from opshift.cli.exit_codes import INTERRUPTED

# Most objects of a command stay alive until its end, so looking for garbage earlier is in vain.
COLLECT = 250_000


def run(prog_name: str | None = None) -> None:
    """Runs the command as the main function of a process; signals end it as Ctrl-C does."""
    gc.set_threshold(COLLECT)
    streams.fill()
    for number in STOPS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, interrupts.interrupt)
    try:
        from opshift.cli import entry

        entry.run(prog_name)
    except KeyboardInterrupt:  # outside of a command
        os.write(2, b"error: interrupted; nothing was written\n")
        os._exit(INTERRUPTED)
