# SPDX-License-Identifier: Apache-2.0
"""Records of adapter calls, so that an adapter is called once for equal nodes."""
