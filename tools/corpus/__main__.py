# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of this program."""

import sys

from tools.lib.program import run

TOOLS = "agree contrib convert findings lean replay runtimes stale"

sys.exit(run("tools.corpus", TOOLS.split()))
