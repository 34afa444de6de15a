# SPDX-License-Identifier: Apache-2.0
"""Records of adapter calls, so that an adapter is asked once for equal questions."""
