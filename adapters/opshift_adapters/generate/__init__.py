# SPDX-License-Identifier: Apache-2.0
"""Operators that generate values: constants, ranges and random numbers."""
