# SPDX-License-Identifier: Apache-2.0
"""The child process that calls the C++ code of onnx; see `protos.onnx_process`."""

from __future__ import annotations

import os
import signal
import sys

from opshift.child_limits import alarm, cap_memory, cap_processor, fair_share
from opshift.opsets import registration
from opshift.protos.onnx_calls import CALLS
from opshift.protos.onnx_process import WALL, packed, read, unpacked, write

MEGABYTES = 8192


def main() -> None:
    """Executes the calls that arrive at the standard input, until it is closed."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # onnx may print to the standard output
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    registration.register()
    cap_memory(min(MEGABYTES, fair_share(1) or MEGABYTES))
    while True:
        try:
            seconds, *parts = read(sys.stdin.buffer)
        except EOFError:
            return
        name, arguments = unpacked(parts)
        alarm(float(seconds) * WALL)
        cap_processor(float(seconds))
        try:
            answer = ["", CALLS[name](*arguments)]
        except Exception as error:
            answer = [type(error).__name__, str(error)]
        alarm(0)
        write(answers, packed(answer))
