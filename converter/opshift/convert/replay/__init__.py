# SPDX-License-Identifier: Apache-2.0
"""Records calls of adapters, so that equal nodes share one call."""
