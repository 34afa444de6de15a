# SPDX-License-Identifier: Apache-2.0
"""Products of matrices, attention and recurrent networks."""
