# SPDX-License-Identifier: Apache-2.0
"""Sequences, optional values and control flow."""
