# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of this program."""

import sys

from tools.lib.program import run

TOOLS = (
    "branches browser_page claims docs edges freeze gaps index kernels late_changes lengths"
    " mutation new_opset ops_database plans targets"
)

sys.exit(run("tools.author", TOOLS.split()))
