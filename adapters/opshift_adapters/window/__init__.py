# SPDX-License-Identifier: Apache-2.0
"""Convolution, pooling and other operators that move a window over a signal."""
