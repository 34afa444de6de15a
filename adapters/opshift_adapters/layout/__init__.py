# SPDX-License-Identifier: Apache-2.0
"""Operators that arrange the elements of a tensor in another shape or order."""
