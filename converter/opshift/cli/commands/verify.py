"""`opshift verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from opshift.cli import options
from opshift.cli.options import common, documents, reports
from opshift.cli.output import DONE, REFUSED, Output

if TYPE_CHECKING:
    from opshift.page.sheet import Page
    from opshift.verify import Verification

ENGINES = ("auto", "onnxruntime", "opshift")


@options.command(
    "opshift verify model.onnx model13.onnx",
    "opshift verify a.onnx b.onnx --inputs data.npz --rtol 1e-5",
)
@click.argument("a", metavar="A", type=click.Path(dir_okay=False))
@click.argument("b", metavar="B", type=click.Path(dir_okay=False))
@click.option("--inputs", type=click.Path(exists=True), help="An .npz, or a folder of test data.")
@click.option("--engine", type=click.Choice(ENGINES), default="auto", show_default=True,
              help="What runs the models.")  # fmt: skip
@click.option("--runtime", default="", metavar="PYTHON", help="Run B in the onnxruntime of PYTHON.")
@click.option("--seed", type=int, default=0, show_default=True, help="For inputs that are made up.")
@click.option("--rtol", type=float, help="Allowed relative difference of floats.")
@click.option("--atol", type=float, help="Allowed absolute difference of floats.")
@click.option("--ulp", type=int, help="Allowed units in the last place.")
@click.option("--reduce", type=click.Path(file_okay=False), help="Where to save what differs.")
@click.option("--seconds", type=float, default=300, show_default=True, help="For each run.")
@click.option("--megabytes", type=int, default=8192, show_default=True, help="For each run.")
@reports
@documents
@common
def command(
    output: Output,
    a: str,
    b: str,
    inputs: str | None,
    engine: str,
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
    """Runs A and B on the same inputs and compares what they compute; exit 1 unless equal."""
    from opshift.verify import Limits, verify

    with output.working("verifying"):
        found = verify(
            a, b, inputs, engine=engine, seed=seed, rtol=rtol, atol=atol, ulp=ulp,
            limits=Limits(seconds, megabytes), reduce=reduce, runtime=runtime,
        )  # fmt: skip
    output.page(report, lambda: _page(found, a, b))
    output.result(found.lines, found.as_dict, good=found.equal)
    return DONE if found.equal else REFUSED


def _page(found: Verification, a: str, b: str) -> Page:
    from opshift.convert.api import carve_of
    from opshift.convert.look.pages import Models, complete

    return complete(found.page(), Models(carve_of(a), carve_of(b)), a)
