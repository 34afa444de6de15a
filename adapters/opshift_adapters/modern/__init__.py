# SPDX-License-Identifier: Apache-2.0
"""The formulas of `--modernize` that are not derived from an adapter (`mirrored`).

The docstring of each module says why, and `codes.py` for the modules of quantized operators.
"""
