# SPDX-License-Identifier: Apache-2.0
"""Operators that sample, resize or detect in images."""
