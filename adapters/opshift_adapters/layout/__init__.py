# SPDX-License-Identifier: Apache-2.0
"""Operators that change the shape of a tensor or the order of its elements."""
