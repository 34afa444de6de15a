# SPDX-License-Identifier: Apache-2.0
"""Measures what a runtime supports: runs small models of every operator in its Python."""
