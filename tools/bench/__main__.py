# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of this program."""

import sys

from tools.lib.program import run

TOOLS = "ir matrix real report run scale soak start zoo"

sys.exit(run("tools.bench", TOOLS.split()))
