# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of this program."""

import sys

from tools.lib.program import run

TOOLS = "run"

sys.exit(run("tools.fuzz", TOOLS.split()))
