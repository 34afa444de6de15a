# SPDX-License-Identifier: Apache-2.0
"""Operators that work element by element, with broadcasting."""
