# SPDX-License-Identifier: Apache-2.0
"""Facts about operators: shapes, bounds, folded constants, illegal nodes, misread nodes."""
