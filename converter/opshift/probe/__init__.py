# SPDX-License-Identifier: Apache-2.0
"""Measures a runtime: small models of every operator, run in its Python, become a row."""
