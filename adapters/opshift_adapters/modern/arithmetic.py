# SPDX-License-Identifier: Apache-2.0
"""Declares Add and Mul as operators whose operands a formula matches in any order."""

from opshift.adapter import arithmetic, commutes

SUM = arithmetic("sum", "Add", "Sub", "Neg", neutral=0)
PRODUCT = arithmetic("product", "Mul", "Div", "Reciprocal", neutral=1, power="Pow")
EITHER_WAY = commutes("Max Min And Or Xor Equal")
