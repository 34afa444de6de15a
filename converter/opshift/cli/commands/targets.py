# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift targets`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opshift.cli import idle, options
from opshift.cli.complete import complete_models_and_runtimes
from opshift.cli.conversion_options import permission_names, permissions
from opshift.cli.exit_codes import DONE
from opshift.cli.options import common, documents
from opshift.cli.terminal import Output
from opshift.json_form import parsed
from opshift.text import Line, Role
from opshift.versions import is_version

if TYPE_CHECKING:
    from opshift.convert.request import Request


@options.command(
    "opshift targets",
    "opshift targets onnxruntime==1.10",
    "opshift targets model.onnx",
    "opshift targets --learn report.json",
)
@click.argument(
    "words",
    required=False,
    nargs=-1,
    metavar="[MODEL] [NAME[==VERSION]]...",
    shell_complete=complete_models_and_runtimes,
)
@click.option("--all", "every", is_flag=True, help="With MODEL, show a row for each release.")
@click.option(
    "--learn",
    "report",
    type=click.Path(dir_okay=False),
    help="Read this report of `opshift convert --runtime PYTHON --json`, and store the opset and"
    " the other choices that succeeded. Later conversions for the release try them first.",
)
@documents
@options.own_targets
@common
@permissions
def command(
    output: Output, words: tuple[str, ...], every: bool, report: str | None, request: Request
) -> int:
    """List the runtimes that --for accepts.

    With MODEL, show which runtimes run the model as it is, and after a conversion with these
    options. There is a row for each runtime, or for each release of the named runtimes.
    """
    from opshift.model.bytes.file_names import has_ending

    names = permission_names()
    if report is not None:
        idle.require_untyped("--learn reads a report; leave out the other options", "every", *names)
        return _learn(output, report, words)
    if any(map(has_ending, words[1:])):
        raise click.UsageError("`opshift targets` takes one MODEL; give it before the runtimes")
    if version := next(filter(is_version, words), ""):
        raise click.UsageError(
            f"{version} is a version; give names of runtimes, whose versions this command lists"
        )
    if words and options.is_model(words[0]):
        source = options.ModelPath().convert(words[0], None, None)
        return _survey(output, source, words[1:], every, request)
    text = "options about a model are given without a model; give MODEL before the runtimes"
    idle.require_untyped(text, "every", *names)
    return _list(output, words)


def _learn(output: Output, report: str, words: tuple[str, ...]) -> int:
    """Stores the choices of a successful conversion, and prints the row of its runtime."""
    from opshift.opsets import learned, targets

    if words:
        raise click.UsageError(
            "--learn reads the runtime from the report; leave out the other arguments"
        )
    path = targets.own_file().with_name(learned.FILE)
    try:
        content = parsed(Path(report).read_text("utf-8"))
    except ValueError as error:
        raise click.UsageError(
            f"{report} is not JSON: {error}; give a report of `opshift convert --json`"
        ) from None
    target = learned.record_settings(content, report, path)
    output.say(
        [Line(f"Stored the choices that succeeded for {target} in {path}.", Role.GOOD)], err=True
    )
    return _list(output, (target,))


def _survey(
    output: Output, source: str, names: tuple[str, ...], every: bool, request: Request
) -> int:
    from opshift.look.accepts import survey

    with output.working(f"trying {os.path.basename(source)}"):
        result = survey(source, names, request)
    output.result(result.lines if names or every else result.by_runtime, result.as_dict)
    return DONE


def _list(output: Output, words: tuple[str, ...]) -> int:
    from opshift.look.known_targets import targets

    listing = targets(*words)
    output.result(listing.lines, listing.as_dict)
    return DONE
