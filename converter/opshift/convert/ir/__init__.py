# SPDX-License-Identifier: Apache-2.0
"""Finds, rewrites and removes model content that only later IR versions define."""
