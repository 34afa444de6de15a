# SPDX-License-Identifier: Apache-2.0
"""The formulas that `--modernize` replaces by newer operators: inverses of decompositions."""
