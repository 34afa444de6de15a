"""`opshift convert`."""

from __future__ import annotations

import os

import click

from opshift.cli import DONE, REFUSED, Output, common, read_ir, read_target

EXTERNAL = ("keep", "copy", "link", "inline", "one-file")


@click.command
@click.argument("source", metavar="IN", type=click.Path(dir_okay=False))
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where the result goes.")
@click.option("--in-place", is_flag=True, help="Replace IN, atomically.")
@click.option("--to", "words", multiple=True, metavar="N|latest|DOMAIN=N", help="Target version.")
@click.option("--ir", default="auto", help="IR version: auto, keep or a number.")
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit 1 if it would change."
)
@click.option("--dry-run", is_flag=True, help="Write nothing; show what would be done.")
@click.option("--allow-approximate", is_flag=True, help="Allow results that are not exactly equal.")
@click.option("--external-data", type=click.Choice(EXTERNAL), default="keep", show_default=True)
@click.option("--drop-metadata", is_flag=True, help="Drop metadata the wanted IR has no field for.")
@common
def command(
    talk: Output,
    source: str,
    output: str | None,
    in_place: bool,
    words: tuple[str, ...],
    ir: str,
    only_check: bool,
    dry_run: bool,
    allow_approximate: bool,
    external_data: str,
    drop_metadata: bool,
) -> int:
    """Converts IN to other versions."""
    from opshift import weights
    from opshift.convert import Options, convert, convert_file

    writes = not (only_check or dry_run)
    if writes and in_place == (output is not None):
        raise click.UsageError("say where the result goes: either -o OUT or --in-place")
    if not words and ir == "auto":
        raise click.UsageError("say what is wanted: --to N, --ir N, or both")
    target, wanted_ir = read_target(words), read_ir(ir)
    with talk.working(f"converting {os.path.basename(source)}"):
        if writes:
            report = convert_file(
                source, output or source, target, ir_version=wanted_ir,
                allow_approximate=allow_approximate, drop_metadata=drop_metadata,
                external=external_data,
            )  # fmt: skip
        else:
            options = Options(target, wanted_ir, allow_approximate, drop_metadata=drop_metadata)
            report = convert(lambda: weights.carve_file(source), options)[2]
    talk.result(lambda: str(report), report.as_dict)
    return REFUSED if only_check and report.changed else DONE
