# SPDX-License-Identifier: Apache-2.0
"""The facts about every operator of the standard domains: one file per family."""
