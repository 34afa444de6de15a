# SPDX-License-Identifier: Apache-2.0
"""The command line of opshift: a process calls `start.run`, and `entry.main` has the commands."""
