# SPDX-License-Identifier: Apache-2.0
"""Conversion of the classes of nodes."""
