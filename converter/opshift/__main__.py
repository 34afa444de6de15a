"""`python -m opshift` is the command."""

from opshift.cli import main

main(prog_name="opshift")
