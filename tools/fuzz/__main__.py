# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of this program."""

import sys

from tools.lib.program import run

TOOLS = "coverage crash each inference orders paths run ways"

sys.exit(run("tools.fuzz", TOOLS.split()))
