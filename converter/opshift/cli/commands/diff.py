# SPDX-License-Identifier: Apache-2.0
"""`opshift diff`."""

from __future__ import annotations

import click

from opshift.cli import options
from opshift.cli.options import common, documents
from opshift.cli.terminal import DONE, Output


@options.command("opshift diff old.onnx new.onnx", "opshift diff model.onnx converted.onnx -v")
@click.argument("first", metavar="A", type=click.Path(dir_okay=False))
@click.argument("second", metavar="B", type=click.Path(dir_okay=False))
@documents
@common
def command(output: Output, first: str, second: str) -> int:
    """Compare the models A and B.

    The answer is whether B is a MAJOR, MINOR or PATCH change for the users of A. The comparison
    covers versions, interface, nodes by operator, weights by digest and metadata. A is also
    converted to the versions of B. If this gives the nodes and weights of B, both models compute
    the same results.
    """
    from opshift.convert.look.compare import diff

    with output.working("comparing"):
        found = diff(first, second)
    output.result(found.lines, found.as_dict)
    return DONE
