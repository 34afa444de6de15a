"""`opshift convert`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from opshift.cli import DONE, REFUSED, Output, common, read_ir, read_target

if TYPE_CHECKING:
    from opshift.convert import Options, Target
    from opshift.report import Report
    from opshift.targets import Wanted

EXTERNAL = ("keep", "copy", "link", "inline", "one-file")


@click.command
@click.argument("source", metavar="IN", type=click.Path(dir_okay=False))
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where the result goes.")
@click.option("--in-place", is_flag=True, help="Replace IN, atomically.")
@click.option("--to", "words", multiple=True, metavar="N|latest|DOMAIN=N", help="Target version.")
@click.option("--for", "runtime", metavar="NAME==VERSION", help="What a runtime takes at most.")
@click.option("--at-least", multiple=True, metavar="N|DOMAIN=N", help="Raise to this if below.")
@click.option("--ir", default="auto", help="IR version: auto, keep or a number.")
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit 1 if it would change."
)
@click.option("--verify", "verifies", is_flag=True, help="Run IN and OUT; exit 1 unless equal.")
@click.option("--dry-run", is_flag=True, help="Write nothing; show what would be done.")
@click.option("--allow-approximate", is_flag=True, help="Allow results that are not exactly equal.")
@click.option("--external-data", type=click.Choice(EXTERNAL), default="keep", show_default=True)
@click.option("--drop-metadata", is_flag=True, help="Drop metadata the wanted IR has no field for.")
@click.option(
    "--prune-imports/--keep-imports", default=None, help="Drop imports nobody uses; on with --for."
)
@click.option("--unknown-domains", type=click.Choice(("keep", "refuse")), default="keep")
@click.option("--minimal", is_flag=True, help="To the smallest versions that mean the same.")
@click.option("--bump-model-version", is_flag=True, help="Raise the model's own version too.")
@common
def command(
    talk: Output,
    source: str,
    output: str | None,
    in_place: bool,
    only_check: bool,
    dry_run: bool,
    external_data: str,
    verifies: bool,
    **wishes: Any,
) -> int:
    """Converts IN to other versions."""
    from opshift import weights
    from opshift.convert import convert, convert_path

    writes = not (only_check or dry_run)
    if writes and in_place == (output is not None):
        raise click.UsageError("say where the result goes: either -o OUT or --in-place")
    if verifies and output is None:
        raise click.UsageError("--verify runs IN and OUT, so it needs -o OUT")
    options = _options(**wishes)
    with talk.working(f"converting {os.path.basename(source)}"):
        if writes:
            report = convert_path(source, output or source, options, external_data)
        else:
            report = convert(lambda: weights.carve_file(source), options)[2]
    if verifies and output is not None:
        return _verified(talk, source, output, report)
    talk.result(lambda: str(report), report.as_dict)
    return REFUSED if only_check and report.changed else DONE


def _verified(talk: Output, source: str, output: str, report: Report) -> int:
    """Tells what was done and whether both models compute the same."""
    from opshift.verify import verify

    with talk.working("verifying"):
        found = verify(source, output)
    talk.result(
        lambda: f"{report}\n\n{found}",
        lambda: {**report.as_dict(), "verification": found.as_dict()},
    )
    return DONE if found.equal else REFUSED


def _options(
    words: tuple[str, ...],
    runtime: str | None,
    at_least: tuple[str, ...],
    ir: str,
    **rest: Any,
) -> Options:
    from opshift import targets
    from opshift.convert import Options

    wishes = (words, runtime, at_least, ir != "auto", rest["prune_imports"], rest["minimal"])
    if not any(wishes):
        raise click.UsageError("say what is wanted: --to N, --for RUNTIME, --ir N, or several")
    target: Target | Wanted = read_target(words)
    if runtime is not None or at_least:
        ceiling = None if runtime is None else targets.find(runtime)
        target = targets.Wanted(ceiling, read_target(words), read_target(at_least, "--at-least"))
    return Options(target, read_ir(ir), **rest)
