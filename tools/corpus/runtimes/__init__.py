# SPDX-License-Identifier: Apache-2.0
"""Runs converted models in the runtimes that they were converted for."""
