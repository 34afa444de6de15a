# SPDX-License-Identifier: Apache-2.0
"""Reads and writes remote files: `stores` has the interface, other modules implement it."""
