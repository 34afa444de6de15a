# SPDX-License-Identifier: Apache-2.0
"""The command line of opshift: a process calls `start.run`, and `main` has the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.lazy import lazy

if TYPE_CHECKING:
    from opshift.cli.entry import main as main
else:  # `start` sets up the signals before it imports the commands
    __getattr__, __dir__ = lazy(__name__, {"entry": ("main",)})
