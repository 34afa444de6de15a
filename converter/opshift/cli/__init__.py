# SPDX-License-Identifier: Apache-2.0
"""The command line: `main` is the command."""

from opshift.cli.entry import main as main
