# SPDX-License-Identifier: Apache-2.0
"""What is known about every operator of the standard domains: one file per family."""
