# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of `tools.fuzz` by name."""

from tools.lib.program import run

run("tools.fuzz", "run")
