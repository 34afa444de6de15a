# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of `tools.corpus` by name."""

from tools.lib.program import run

run("tools.corpus", "replay runtimes")
