# SPDX-License-Identifier: Apache-2.0
"""Compares a legal model with what the release of a runtime can run."""
