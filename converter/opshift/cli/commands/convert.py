# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift convert`."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

import click

from opshift.cli import idle, options, streams
from opshift.cli.answers import converted
from opshift.cli.conversion_options import all_options
from opshift.cli.options import common, documents, guarded, reports
from opshift.cli.terminal import Output

if TYPE_CHECKING:
    from opshift.convert.request import Request
    from opshift.errors import Refused
    from opshift.look.pages import Models
    from opshift.model.bytes.place import File, Stream
    from opshift.model.bytes.source import Opened
    from opshift.model.weights import Weights
    from opshift.page.sheet import Page
    from opshift.protos import ModelProto
    from opshift.report import Report
    from opshift.verify import Verification
    from opshift.verify.other_runtime import OtherRuntime
    from opshift.verify.trials import Trials

STDOUT = "standard output"
EXTERNAL = ("keep", "copy", "inline", "one-file")


@options.command(
    "opshift convert model.onnx -o model13.onnx --to 13",
    "opshift convert model.onnx --in-place --to latest",
    "opshift convert model.onnx -o edge.onnx --for onnxruntime==1.10 --verify",
    "opshift convert model.onnx -o edge.onnx --for opencv==4.8 --runtime device/bin/python",
    "opshift convert *.onnx --to 13 --check",
)
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=options.ModelPath())
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="Write the result to this file. `-` means the standard output.",
)
@click.option(
    "--in-place", is_flag=True, help="Replace IN by the result, completely or not at all."
)
@click.option(
    "--check",
    "only_check",
    is_flag=True,
    help="Write nothing. Exit with code 4 if the model would change.",
)
@click.option(
    "--verify",
    "verifies",
    is_flag=True,
    help="Run source and result on equal inputs. Write the result only if both compute the same.",
)
@click.option(
    "--runtime",
    "python",
    default="",
    metavar="PYTHON",
    help="Run the result in the runtime that this Python interpreter imports. If it fails or"
    " computes other numbers, try other opsets and operators. Write the first result that runs.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing. Show what a conversion would do.")
@click.option(
    "--external-data",
    type=click.Choice(EXTERNAL),
    default="keep",
    show_default=True,
    help="The place for weights in separate files: unchanged (keep), a copy of each file (copy),"
    " the model file (inline), or one new file for all weights (one-file).",
)
@reports
@documents
@common
@all_options
def command(
    talk: Output,
    sources: tuple[str, ...],
    output: str | None,
    in_place: bool,
    only_check: bool,
    dry_run: bool,
    external_data: str,
    verifies: bool,
    python: str,
    report: str | None,
    request: Request,
) -> int:
    """Convert the model IN to other versions.

    IN may be a pipe; `-` means standard input. Several IN need --in-place, --check or --dry-run.
    """
    if output == "":
        raise click.UsageError("the name after -o is empty; give the path of the result")
    if output and report and os.path.realpath(output) == os.path.realpath(report):
        raise click.UsageError("-o and --report name one file; give the report another name")
    writes = not (only_check or dry_run)
    if writes and in_place == (output is not None):
        missing = "-o and --in-place are both given; give one of them"
        if output is None:
            last = sources[-1]
            path = "OUT" if len(sources) < 2 or os.path.exists(last) else last
            missing = f"the command names no file for the result; give -o {path} or --in-place"
        raise click.UsageError(missing)
    if output is not None and len(sources) > 1:
        raise click.UsageError("-o names one file, but there are several models; give --in-place")
    if report is not None and len(sources) > 1:
        raise click.UsageError(
            "--report writes the page of one model, but several are given; use `opshift batch"
            " --report`"
        )
    if python and request.minimal:
        raise click.UsageError(
            "--minimal and --runtime both choose the versions of the result; give one of them"
        )
    if python:
        text = "--verify has no effect with --runtime, which also compares results; leave it out"
        idle.require_untyped(text, "verifies")
    if only_check:
        text = "--dry-run has no effect with --check, which also writes nothing; leave it out"
        idle.require_untyped(text, "dry_run")
    action = "check" if only_check else "dry run" if dry_run else "write"
    judge = _judge(python, request) if python else None

    def one(source: str) -> int:
        return _convert(
            talk, source, output, request, action, external_data, report,
            in_place=in_place, verifies=verifies, judge=judge,
        )  # fmt: skip

    return talk.each(sources, lambda source: guarded(talk, lambda: one(source)))


def _convert(
    talk: Output,
    source: str,
    output: str | None,
    request: Request,
    action: str,
    external_data: str,
    page: str | None,
    *,
    in_place: bool,
    verifies: bool,
    judge: OtherRuntime | None,
) -> int:
    """Converts one model, prints the outcome, and returns the exit code."""
    from opshift.model.bytes import documents

    file, target = _places(source, output, in_place)
    talk.aside = target.name == STDOUT
    with documents.beside(file):
        if judge is not None:
            return _convert_and_run(
                talk, file, target, request, action, external_data, page, judge, in_place=in_place
            )
        return _convert_file(
            talk, file, target, request, action, external_data, page,
            in_place=in_place, verifies=verifies,
        )  # fmt: skip


def _convert_file(
    talk: Output,
    file: Opened,
    target: File | Stream,
    request: Request,
    action: str,
    external_data: str,
    page: str | None,
    *,
    in_place: bool,
    verifies: bool,
) -> int:
    """Converts an opened model, and writes the result if `action` is "write"."""
    from opshift.convert.ir import restamp

    if not verifies and (stamp := restamp.header_change(file, request, target, external_data)):
        written = stamp.write(target, in_place=in_place) if action == "write" else []
        talk.page(page, lambda: _page(stamp.report, models().converted(file, request), file))
        return converted(talk, stamp.report, action, written)

    from opshift.convert.cheapest_strategy import convert
    from opshift.errors import Refused
    from opshift.model import weights
    from opshift.protos.copies import copied

    try:
        with talk.working(f"converting {os.path.basename(file.path)}"):
            skeleton, large_tensors, report = convert(lambda: weights.carve_file(file), request)
    except Refused as refused:
        refusal = refused
        talk.page(page, lambda: _page(refusal, models().of(file, None), file))
        raise
    # Writing may remove parts of the skeleton, such as weights that go to another file.
    shown = (copied(skeleton), large_tensors) if page else None
    verification, written = None, list[str]()
    if verifies:
        with talk.working("verifying"):
            sites = [site.value for site in report.modernized]
            verification = _verified(file, target.name, skeleton, large_tensors, sites, request)
    if action == "write" and (verification is None or verification.equal):
        with talk.working(f"writing {os.path.basename(target.name)}"):
            written = weights.put(
                skeleton, large_tensors, target, report.changed,
                external=external_data, in_place=in_place,
            )  # fmt: skip
    talk.page(page, lambda: _page(report, models().of(file, shown), file, verification))
    return converted(talk, report, action, written, verification)


def _judge(python: str, request: Request) -> OtherRuntime:
    """Returns the runtime that runs the results, if opshift has a driver for it."""
    import shutil

    from opshift.opsets import targets
    from opshift.opsets.wanted import Wanted
    from opshift.verify import other_runtime

    if shutil.which(python) is None and targets.called(python.partition("=")[0]):
        raise click.UsageError(
            f"--runtime {python}: this option takes a Python interpreter; write --for {python}"
        )
    target = request.target
    row = target.release if isinstance(target, Wanted) else None
    return other_runtime.find(python, row.name if row is not None else "")


def _convert_and_run(
    talk: Output,
    file: Opened,
    target: File | Stream,
    request: Request,
    action: str,
    external_data: str,
    page: str | None,
    judge: OtherRuntime,
    *,
    in_place: bool,
) -> int:
    """Converts an opened model to the first result that the runtime `judge` runs."""
    from opshift.model import weights
    from opshift.protos.copies import copied
    from opshift.verify.runtime_search import convert_and_run

    with talk.working(f"converting {os.path.basename(file.path)} and running it in {judge}"):
        outcome = convert_and_run(file, request, judge)
    conversion = outcome.converted
    shown = (copied(conversion.skeleton), conversion.weights) if page else None
    found = outcome.verification
    verified = None if found is None else _named(found, file, target.name)
    kept = outcome.trials.runs or request.keep_unrunnable
    written = list[str]()
    if action == "write" and kept:
        with talk.working(f"writing {os.path.basename(target.name)}"):
            written = weights.put(
                conversion.skeleton, conversion.weights, target, conversion.report.changed,
                external=external_data, in_place=in_place,
            )  # fmt: skip
    talk.page(
        page,
        lambda: _page(conversion.report, models().of(file, shown), file, verified, outcome.trials),
    )
    return converted(talk, conversion.report, action, written, verified, outcome.trials, kept=kept)


def models() -> type[Models]:
    """Imports the class `Models`; only HTML pages need it."""
    from opshift.look.pages import Models

    return Models


def _page(
    outcome: Report | Refused, models: Models, file: Opened,
    verification: Verification | None = None, trials: Trials | None = None,
) -> Page:  # fmt: skip
    """Returns the HTML page of a conversion; its headline says if source and result differ."""
    from opshift.look.pages import complete

    page = outcome.page()
    more = [part.section() for part in (trials, verification) if part is not None]
    if verification is not None:
        page = dataclasses.replace(page, proof=verification.proof)
        if not verification.equal:
            page = dataclasses.replace(page, verdict=verification.proof, proof=None)
    return complete(page, models, file, *more)


def _places(source: str, output: str | None, in_place: bool) -> tuple[Opened, File | Stream]:
    """Returns the file of the source model, and the file or stream of the result."""
    from opshift.model.bytes import place
    from opshift.model.bytes.source import Opened

    if in_place:
        if source == options.STDIN:
            raise click.UsageError("--in-place cannot replace the standard input; give -o OUT")
        output = place.to_replace(source)
    file = Opened("standard input", fd=0) if source == options.STDIN else Opened(source)
    if output == "-":
        if "stdout" in streams.closed:
            raise click.UsageError("the standard output is closed; give -o OUT")
        return file, place.Stream(STDOUT, fd=1)
    return file, place.at(output or source)


def _verified(
    source: Opened,
    target: str,
    skeleton: ModelProto,
    large_tensors: Weights,
    values: list[str],
    request: Request,
) -> Verification:
    """Compares the converted model with its source before the result is written."""
    import tempfile

    from opshift.model import weights
    from opshift.verify import verify

    with tempfile.TemporaryDirectory(prefix="opshift-") as folder:
        trial = os.path.join(folder, "converted.onnx")
        weights.splice_to_run(skeleton, large_tensors, trial)
        path = source.at_path(folder, "piped.onnx")
        verification = verify(
            path, trial, request.inputs, values=values, in_double=bool(request.types)
        )
    return _named(verification, source, target)


def _named(verification: Verification, source: Opened, target: str) -> Verification:
    """Returns a comparison whose models have the names that the user typed."""
    names = (source.path, f"{target} (converted)" if target == source.path else target)
    first, second = (
        dataclasses.replace(side, model=name)
        for side, name in zip(verification.sides, names, strict=True)
    )
    return dataclasses.replace(verification, sides=(first, second))
