# SPDX-License-Identifier: Apache-2.0
"""The command line of opshift, whose main function is `cli.entry.main`."""

from opshift.cli.entry import main as main
