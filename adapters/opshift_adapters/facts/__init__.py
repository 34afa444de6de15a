# SPDX-License-Identifier: Apache-2.0
"""Known facts about operators at any version."""
