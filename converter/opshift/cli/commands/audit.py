# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift audit`."""

from __future__ import annotations

import click

from opshift.cli import options
from opshift.cli.complete import complete_runtimes
from opshift.cli.exit_codes import DONE, NOT_KNOWN, REFUSED
from opshift.cli.options import common, guarded
from opshift.cli.terminal import Output

EXIT_CODES = {"yes": REFUSED, "no": DONE, "not known": NOT_KNOWN}


@options.command(
    "opshift audit converted/",
    "opshift audit model-13.onnx report.json rows.jsonl",
    "opshift audit source.onnx --to 13",
)
@click.argument("sources", metavar="FILE|FOLDER...", nargs=-1, required=True, type=click.Path())
@click.option("--to", "opsets", multiple=True, metavar="N|DOMAIN=N",
              help="FILE is a source model: audit its conversion to this version.")  # fmt: skip
@click.option("--for", "runtime", metavar="NAME==VERSION", shell_complete=complete_runtimes,
              help="FILE is a source model: audit its conversion for this runtime.")  # fmt: skip
@options.own_targets
@common
def command(
    output: Output, sources: tuple[str, ...], opsets: tuple[str, ...], runtime: str | None
) -> int:
    """Find wrong results of earlier conversions.

    Each release of opshift lists the mistakes of earlier releases that it corrects. FILE is a model
    that was converted with --stamp, a JSON report, or the --results or --journal file of a batch.
    FOLDER is the folder to which a batch wrote its results. For a model without a record of its
    conversion, the command lists the adapters that may have written the model. The exit code is 1
    if a model must be converted again, and 5 if this is not known.
    """
    if opsets and runtime is not None:
        raise click.UsageError("--to and --for both name a target; give one of them")
    target = runtime if runtime is not None else options.read_target(opsets, "--to") or None

    def answer(source: str) -> int:
        from opshift.zoo.audit import audit

        with output.working(f"auditing {source}"):
            result = audit(source, target)
        output.result(result.lines, result.as_dict, good=result.answer == "no")
        return EXIT_CODES[result.answer]

    return output.each(sources, lambda source: guarded(output, lambda: answer(source)))
