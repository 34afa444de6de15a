# SPDX-License-Identifier: Apache-2.0
"""Normalization, softmax and losses."""
