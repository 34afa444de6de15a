# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift accepts`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from opshift.cli import options
from opshift.cli.complete import complete_runtimes
from opshift.cli.exit_codes import DONE, NOT_KNOWN, REFUSED
from opshift.cli.options import common, guarded
from opshift.cli.terminal import Output
from opshift.opsets.described import SUFFIX

if TYPE_CHECKING:
    from opshift.look.accepts import Acceptance

EXIT_CODES = {"yes": DONE, "no": REFUSED, "may": NOT_KNOWN, "not known": NOT_KNOWN}


@options.command(
    "opshift accepts model.onnx --for onnxruntime==1.10",
    "opshift accepts models/*.onnx --opset 15 --ir 8 --model-version 1.2",
)
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=click.Path())
@click.option("--for", "runtime", metavar="NAME==VERSION", shell_complete=complete_runtimes,
              help="The consumer is this runtime; `opshift targets` lists all.")  # fmt: skip
@click.option(
    "--opset",
    "opsets",
    multiple=True,
    metavar="N|DOMAIN=N|FILE",
    help="The consumer supports this opset, this version of DOMAIN, or the version that an"
    " operator-set document describes.",
)
@click.option("--ir", type=click.IntRange(min=1),
              help="The consumer reads IR versions up to this one.")  # fmt: skip
@click.option("--model-version", metavar="VERSION",
              help="The consumer was written for this version of the model.")  # fmt: skip
@options.own_targets
@common
def command(
    output: Output,
    sources: tuple[str, ...],
    runtime: str | None,
    opsets: tuple[str, ...],
    ir: int | None,
    model_version: str | None,
) -> int:
    """Check whether a runtime can use the model IN without a conversion.

    The consumer is a runtime (--for), whose supported operators and types opshift knows, or a
    program that reads certain versions (--opset, --ir, --model-version) by the rules of ONNX's
    versioning. Nothing is converted. The exit code is 1 if the consumer cannot use one of the
    models. The exit code is 5 if this is not known, or if the consumer can use a model only
    by ignoring the version numbers of the model.
    """
    documents = options.give_documents([word for word in opsets if word.endswith(SUFFIX)])
    words = tuple(word for word in opsets if not word.endswith(SUFFIX))
    known = any((words, ir, model_version)) or (documents and runtime is None)
    if (runtime is None) == (not known):
        told = "no consumer is named; give --for NAME==VERSION, or --opset, --ir, --model-version"
        if known:
            told = "--for already names the consumer; leave out --opset, --ir and --model-version"
        raise click.UsageError(told)

    def ask(source: str) -> int:
        with output.working(f"looking at {os.path.basename(source)}"):
            if runtime is None:
                knows = {**documents, **options.read_target(words, "--opset")}
                found = _knows(source, knows, ir, model_version)
            else:
                found = _runs(source, runtime)
        output.result(found.lines, found.as_dict, good=found.accepted)
        return EXIT_CODES[found.answer]

    return output.each(sources, lambda source: guarded(output, lambda: ask(source)))


def _runs(source: str, runtime: str) -> Acceptance:
    from opshift.look.accepts import accepts

    return accepts(source, runtime)


def _knows(source: str, opsets: dict[str, int], ir: int | None, version: str | None) -> Acceptance:
    from opshift.look import consumer

    written = consumer.written_for(version) if version is not None else None
    return consumer.may_use(source, consumer.Consumer(opsets, ir, written))
