# SPDX-License-Identifier: Apache-2.0
"""Stores of remote files: a module for each kind, and in `stores` the interface and the choice."""
