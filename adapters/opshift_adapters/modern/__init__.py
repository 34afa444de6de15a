# SPDX-License-Identifier: Apache-2.0
"""The formulas of newer operators, which `--modernize` looks for: inverses of decompositions."""
