# SPDX-License-Identifier: Apache-2.0
"""Questions about a model that need no result: what it is, where it can go, and what runs it."""
