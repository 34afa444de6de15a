# SPDX-License-Identifier: Apache-2.0
"""Measures a runtime: runs small models of every operator in the Python of the runtime."""
