# SPDX-License-Identifier: Apache-2.0
"""Runs converted models in the runtimes for which they were converted."""
