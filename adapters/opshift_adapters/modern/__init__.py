# SPDX-License-Identifier: Apache-2.0
"""Formulas of `--modernize` by hand; the comment above each says why no adapter gives it."""
