"""`opshift plan`."""

from __future__ import annotations

import os

import click

from opshift.cli import options
from opshift.cli.options import common, read_target
from opshift.cli.output import DONE, REFUSED, Output


@options.command("opshift plan model.onnx --to 9", "opshift plan model.onnx --for tensorrt==8.4")
@click.argument("source", metavar="IN", type=click.Path(dir_okay=False))
@click.option("--to", "words", multiple=True, metavar="N|latest|DOMAIN=N", help="Target version.")
@click.option("--for", "runtime", metavar="NAME==VERSION", help="What a runtime takes at most.")
@click.option("--allow-approximate", is_flag=True, help="Count forms that are not exactly equal.")
@common
def command(
    output: Output,
    source: str,
    words: tuple[str, ...],
    runtime: str | None,
    allow_approximate: bool,
) -> int:
    """Shows what converting IN would do, or why it cannot; touches nothing."""
    from opshift.convert.look.plan import plan

    if bool(words) == bool(runtime):
        raise click.UsageError("say what is wanted: either --to N or --for RUNTIME")
    target = runtime or read_target(words)
    with output.working(f"planning {os.path.basename(source)}"):
        found = plan(source, target, allow_approximate=allow_approximate)
    output.result(found.lines, found.as_dict, good=found.possible)
    return DONE if found.possible else REFUSED
