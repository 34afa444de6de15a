# SPDX-License-Identifier: Apache-2.0
"""Finds, lowers and removes model content that only later IR versions define."""
