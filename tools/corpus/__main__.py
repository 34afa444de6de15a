# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of this program."""

from tools.lib.program import run

run("tools.corpus", "replay runtimes")
