# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of this program."""

import sys

from tools.lib.program import run

TOOLS = "replay runtimes"

sys.exit(run("tools.corpus", TOOLS.split()))
