# SPDX-License-Identifier: Apache-2.0
"""`python -m opshift` is the command."""

from opshift.cli.entry import run

run(prog_name="opshift")
