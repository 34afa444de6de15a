"""`opshift verify`."""

from __future__ import annotations

import click

from opshift.cli.entry import DONE, REFUSED, Output, common

ENGINES = ("auto", "onnxruntime", "opshift")


@click.command
@click.argument("a", metavar="A", type=click.Path(dir_okay=False))
@click.argument("b", metavar="B", type=click.Path(dir_okay=False))
@click.option("--inputs", type=click.Path(exists=True), help="An .npz, or a folder of test data.")
@click.option("--engine", type=click.Choice(ENGINES), default="auto", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="For inputs that are made up.")
@click.option("--rtol", type=float, help="Allowed relative difference of floats.")
@click.option("--atol", type=float, help="Allowed absolute difference of floats.")
@click.option("--ulp", type=int, help="Allowed units in the last place.")
@click.option("--reduce", type=click.Path(file_okay=False), help="Where to save what differs.")
@click.option("--seconds", type=float, default=300, show_default=True, help="For each run.")
@click.option("--megabytes", type=int, default=8192, show_default=True, help="For each run.")
@common
def command(
    output: Output,
    a: str,
    b: str,
    inputs: str | None,
    engine: str,
    seed: int,
    rtol: float | None,
    atol: float | None,
    ulp: int | None,
    reduce: str | None,
    seconds: float,
    megabytes: int,
) -> int:
    """Runs A and B on the same inputs and compares what they compute; exit 1 unless equal."""
    from opshift.verify import Limits, verify

    with output.working("verifying"):
        found = verify(
            a, b, inputs, engine=engine, seed=seed, rtol=rtol, atol=atol, ulp=ulp,
            limits=Limits(seconds, megabytes), reduce=reduce,
        )  # fmt: skip
    output.result(lambda: str(found), found.as_dict)
    return DONE if found.equal else REFUSED
