# SPDX-License-Identifier: Apache-2.0
"""Answers questions about a model without writing a result, such as plan, lowest and diff."""
