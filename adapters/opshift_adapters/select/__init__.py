# SPDX-License-Identifier: Apache-2.0
"""Operators that select, scatter or sort elements."""
