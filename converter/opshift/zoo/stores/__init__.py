# SPDX-License-Identifier: Apache-2.0
"""Reads and writes remote files; `stores` has the interface, and other modules implement it."""
