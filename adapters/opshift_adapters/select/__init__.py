# SPDX-License-Identifier: Apache-2.0
"""Operators that choose, place or rank elements."""
