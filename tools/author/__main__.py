# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of this program."""

import sys

from tools.lib.program import run

TOOLS = (
    "branches", "browser_page", "check", "claims", "docs", "edges", "engine_mutation", "freeze",
    "late_changes", "mutation", "new_opset", "update",
)  # fmt: skip

sys.exit(run("tools.author", TOOLS))
