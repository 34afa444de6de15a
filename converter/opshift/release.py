# SPDX-License-Identifier: Apache-2.0
"""The release of opshift, which every room may name."""

VERSION = "0.3.0.dev0"
