# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift probe`."""

from __future__ import annotations

from pathlib import Path

import click

from opshift.cli import options
from opshift.cli.exit_codes import DONE
from opshift.cli.options import common, guarded
from opshift.cli.terminal import Output


@options.command(
    "opshift probe device/bin/python -o row.toml",
    "opshift probe device/bin/python --name rknn==2.5.0 -o row.toml",
    "opshift probe ort117/bin/python ort118/bin/python --op Resize",
)
@click.argument("pythons", metavar="PYTHON...", nargs=-1, required=True, type=click.Path())
@click.option("--name", default="", metavar="NAME[==VERSION]",
              help="The name of the runtime, if PYTHON can import several. Add its release if"
              " the package does not state it.")  # fmt: skip
@click.option("-o", "--output", "path", type=click.Path(dir_okay=False, path_type=Path),
              help="Add the measurements to this TOML file.")  # fmt: skip
@click.option("--results", type=click.Path(dir_okay=False, path_type=Path),
              help="Add the result of each model to this file; skip models in it.")  # fmt: skip
@click.option(
    "--op", "ops", multiple=True, metavar="NAME", help="Run only models of this operator."
)
@click.option("--sample", type=click.IntRange(min=1), metavar="N",
              help="Run at most N models; models of common types come first.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), default=30,
              show_default=True, help="The time limit for each model.")  # fmt: skip
@click.option("--megabytes", type=click.IntRange(min=1), default=8192, show_default=True,
              help="The memory limit for a process.")  # fmt: skip
@common
def command(
    output: Output,
    pythons: tuple[str, ...],
    name: str,
    path: Path | None,
    results: Path | None,
    ops: tuple[str, ...],
    sample: int | None,
    seconds: float,
    megabytes: int,
) -> int:
    """Measure which operators and element types a runtime runs.

    Small models of every operator, at each of its versions, run in the runtime of the Python
    interpreter PYTHON, and their results are compared. The option -o writes the measurements to a
    file. Give this file to another command with --targets. Ctrl-C or SIGTERM ends the
    probe and keeps its results. If several PYTHON have releases of one runtime, the command
    also lists their differences.
    """
    from opshift.child_task import Limits
    from opshift.opsets import probed
    from opshift.probe import row
    from opshift.probe.probing import probe

    limits, tables = Limits(seconds, megabytes), list[probed.ProbeTable]()

    def measure(python: str) -> int:
        with output.counting("models") as progress:
            measured = probe(
                python, name, ops=ops, sample=sample, limits=limits, path=results,
                progress=progress,
            )  # fmt: skip
        if path is not None:
            row.write(path, measured)
        tables.append(measured.table)
        output.result(measured.lines, measured.as_dict)
        return DONE

    code = output.each(pythons, lambda python: guarded(output, lambda: measure(python)))
    if len({table.runtime for table in tables}) == 1 < len(tables):
        output.say(row.differences(tables), err=True)
    return code
