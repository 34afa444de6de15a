# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of `tools.author` by name."""

from tools.lib.program import run

run(
    "tools.author",
    "branches browser_page check docs edges engine_mutation freeze late_changes mutation"
    " new_opset update",
)
