# SPDX-License-Identifier: Apache-2.0
"""Formulas of `--modernize` that are not derived from an adapter (`mirrored`).

The docstring of each module gives the reason; `codes.py` does so for quantized operators.
"""
