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
from opshift.cli.synonyms import misplaced
from opshift.cli.terminal import Output
from opshift.opsets.described import SUFFIX

if TYPE_CHECKING:
    from opshift.look.accepts import Acceptance

EXIT_CODES = {"yes": DONE, "no": REFUSED, "may": NOT_KNOWN, "not known": NOT_KNOWN}


@options.command(
    "opshift accepts model.onnx --for onnxruntime==1.10",
    "opshift accepts models/*.onnx --opset 15 --ir 8 --model-version 1.2",
)
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=options.ModelPath())
@click.option("--for", "runtime", metavar="NAME==VERSION", shell_complete=complete_runtimes,
              help="Check for this runtime; `opshift targets` lists all.")  # fmt: skip
@click.option(
    "--opset",
    "opsets",
    multiple=True,
    metavar="N|DOMAIN=N|FILE",
    help="The newest version that the other program reads: an opset of ai.onnx, a version of"
    " DOMAIN, or the version that the operator-set document FILE describes.",
)
@click.option("--ir", type=click.IntRange(min=1),
              help="The newest IR version that the other program reads.")  # fmt: skip
@click.option("--model-version", metavar="VERSION",
              help="The version of the model for which the other program was written.")  # fmt: skip
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
    """Check whether a runtime or another program can use the model IN without a conversion.

    With --for, opshift compares the model with the operators and element types that the runtime
    supports. --opset, --ir and --model-version describe another program by the versions that it
    reads. The exit code is 1 if the runtime or program cannot use one of the models. The exit code
    is 5 if the answer is not known, or if a model can be used only by ignoring its version numbers.
    """
    if option := misplaced(runtime or "", lambda: ("--opset",)):
        raise click.UsageError(f"{runtime} is not a runtime; write {option} {runtime}")
    documents = options.give_documents([word for word in opsets if word.endswith(SUFFIX)])
    words = tuple(word for word in opsets if not word.endswith(SUFFIX))
    has_versions = any((words, ir, model_version)) or (documents and runtime is None)
    if (runtime is None) == (not has_versions):
        message = (
            "the command names no runtime and no versions of another program; give --for"
            " NAME==VERSION, or --opset, --ir or --model-version"
        )
        if has_versions:
            message = (
                "--for and the versions of another program are both given; leave out --for, or"
                " --opset, --ir and --model-version"
            )
        raise click.UsageError(message)

    def ask(source: str) -> int:
        with output.working(f"looking at {os.path.basename(source)}"):
            if runtime is None:
                limits = {**documents, **options.read_target(words, "--opset")}
                acceptance = _knows(source, limits, ir, model_version)
            else:
                acceptance = _runs(source, runtime)
        output.result(acceptance.lines, acceptance.as_dict, good=acceptance.accepted)
        return EXIT_CODES[acceptance.answer]

    return output.each(sources, lambda source: guarded(output, lambda: ask(source)))


def _runs(source: str, runtime: str) -> Acceptance:
    from opshift.look.accepts import accepts

    return accepts(source, runtime)


def _knows(source: str, opsets: dict[str, int], ir: int | None, version: str | None) -> Acceptance:
    from opshift.look import consumer

    written = consumer.written_for(version) if version is not None else None
    return consumer.may_use(source, consumer.Consumer(opsets, ir, written))
