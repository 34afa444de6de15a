# SPDX-License-Identifier: Apache-2.0
"""The values that a Loop carries from one iteration to the next, and the branches of If."""

from opshift.adapter import carries, chooses

LOOP = carries("Loop", "body", inputs=2, outputs=1, fixed="int64 bool")
IF = chooses("If", true="then_branch", false="else_branch")
