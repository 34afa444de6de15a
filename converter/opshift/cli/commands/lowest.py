"""`opshift lowest`."""

from __future__ import annotations

import os

import click

from opshift.cli.entry import DONE, Output, common


@click.command
@click.argument("source", metavar="IN", type=click.Path(dir_okay=False))
@click.option("--allow-approximate", is_flag=True, help="Count forms that are not exactly equal.")
@common
def command(output: Output, source: str, allow_approximate: bool) -> int:
    """Shows the smallest and greatest versions IN can have, as it is and by conversion."""
    from opshift.convert.look.lowest import lowest_versions

    with output.working(f"trying {os.path.basename(source)}"):
        found = lowest_versions(source, allow_approximate=allow_approximate)
    output.result(lambda: str(found), found.as_dict)
    return DONE
