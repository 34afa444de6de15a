# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of `tools.conformance` by name."""

from tools.lib.program import run

run("tools.conformance", "nodes")
