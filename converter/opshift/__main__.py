"""`python -m opshift` is the command."""

from opshift.cli.main import main

main(prog_name="opshift")
