# SPDX-License-Identifier: Apache-2.0
"""Operators that hold graphs: the values that a body passes on, and the graph that runs."""

from opshift.adapter import carries, chooses

LOOP = carries("Loop", "body", inputs=2, outputs=1)
IF = chooses("If", true="then_branch", false="else_branch")
