# SPDX-License-Identifier: Apache-2.0
"""The requests that change a model before the first step: sizes and element types."""
