# SPDX-License-Identifier: Apache-2.0
"""Changes that a caller requests before the first step: fixed sizes and element types."""
