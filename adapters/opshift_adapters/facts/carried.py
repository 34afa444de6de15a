# SPDX-License-Identifier: Apache-2.0
"""Operators whose body passes values from one iteration to the next."""

from opshift.adapter import carries

LOOP = carries("Loop", "body", inputs=2, outputs=1)
