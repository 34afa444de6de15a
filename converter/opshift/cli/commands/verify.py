# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift verify`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from opshift.cli import options
from opshift.cli.exit_codes import DONE, REFUSED
from opshift.cli.options import common, documents, reports
from opshift.cli.terminal import Output

if TYPE_CHECKING:
    from opshift.page.sheet import Page
    from opshift.verify import Verification
    from opshift.verify.engine_choice import EngineName

ENGINES = ("auto", "onnxruntime", "opshift")


@options.command(
    "opshift verify model.onnx model13.onnx",
    "opshift verify a.onnx b.onnx --inputs data.npz --rtol 1e-5",
)
@click.argument("a", metavar="A", type=options.ModelPath())
@click.argument("b", metavar="B", type=options.ModelPath())
@click.option(
    "--inputs",
    type=click.Path(),
    help="Run the models on these inputs: an .npz file, or a folder of test data. By default,"
    " inputs are generated.",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="auto",
    show_default=True,
    help="The engine that runs the models. auto prefers onnxruntime; opshift is the interpreter"
    " of this package.",
)
@click.option(
    "--runtime",
    default="",
    metavar="PYTHON",
    help="Run B in the runtime that this Python interpreter imports, such as the Python of a"
    " device. The first of these is taken: onnxruntime, openvino, opencv, tract, onnx2torch,"
    " onnx2tf, iree, tvm, tinygrad, mnn, rknn-toolkit2.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="The seed of generated inputs."
)
@click.option("--rtol", type=click.FloatRange(0), help="The allowed relative difference of floats.")
@click.option("--atol", type=click.FloatRange(0), help="The allowed absolute difference of floats.")
@click.option(
    "--ulp",
    type=click.IntRange(0),
    help="The allowed difference of floats in units in the last place.",
)
@click.option(
    "--reduce",
    type=click.Path(file_okay=False),
    help="Write the smallest pair of submodels whose results differ to this folder.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=300,
    show_default=True,
    help="The time limit for each run.",
)
@click.option(
    "--megabytes",
    type=click.IntRange(1),
    default=8192,
    show_default=True,
    help="The memory limit for each run.",
)
@reports
@documents
@common
def command(
    output: Output,
    a: str,
    b: str,
    inputs: str | None,
    engine: EngineName,
    runtime: str,
    seed: int,
    rtol: float | None,
    atol: float | None,
    ulp: int | None,
    reduce: str | None,
    seconds: float,
    megabytes: int,
    report: str | None,
) -> int:
    """Run the models A and B and compare the results.

    Both models run on equal inputs. The exit code is 1 if the results differ, or if a model fails.
    """
    from opshift.verify import Limits, verify

    options.require_read_once(*(a, b) * (2 if report else 1))  # the page reads the models again
    with output.working("verifying"):
        verification = verify(
            a, b, inputs, engine=engine, seed=seed, rtol=rtol, atol=atol, ulp=ulp,
            limits=Limits(seconds, megabytes), reduce=reduce, runtime=runtime,
        )  # fmt: skip
    output.page(report, lambda: _page(verification, a, b))
    output.result(verification.lines, verification.as_dict, good=verification.equal)
    return DONE if verification.equal else REFUSED


def _page(verification: Verification, a: str, b: str) -> Page:
    from opshift.convert.cheapest_strategy import opener_of
    from opshift.look.pages import Models, complete, title_of

    page = dataclasses.replace(verification.page(), title=title_of(a, b))
    return complete(page, Models(opener_of(a), opener_of(b)), a)
