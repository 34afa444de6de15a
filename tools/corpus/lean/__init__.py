# SPDX-License-Identifier: Apache-2.0
"""How large and how fast converted models are."""
