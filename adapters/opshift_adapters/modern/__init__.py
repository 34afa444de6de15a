# SPDX-License-Identifier: Apache-2.0
"""Formulas of `--modernize` that were written by hand, not derived from an adapter.

The docstring of each module gives the reason; `codes.py` does so for quantized operators.
"""
