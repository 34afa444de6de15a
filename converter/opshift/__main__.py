# SPDX-License-Identifier: Apache-2.0
"""Runs the command line for `python -m opshift`."""

from opshift import child_python

child_python.leave_working_folder()

from opshift.cli.start import run  # noqa: E402 - from here on nothing comes from that folder

run(prog_name="opshift")
