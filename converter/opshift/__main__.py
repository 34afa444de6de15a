# SPDX-License-Identifier: Apache-2.0
"""`python -m opshift` is the command."""

from opshift import child_python

child_python.leave_working_folder()

from opshift.cli.entry import run  # noqa: E402 - from here on nothing comes from that folder

run(prog_name="opshift")
