# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift diff`."""

from __future__ import annotations

import os

import click

from opshift.cli import options
from opshift.cli.exit_codes import BAD_INPUT, DONE
from opshift.cli.options import common, documents
from opshift.cli.terminal import Output


@options.command(
    "opshift diff old.onnx new.onnx",
    "opshift diff model.onnx converted.onnx -v",
    "opshift diff zoo-1.0 zoo-1.1",
)
@click.argument("first", metavar="A", type=options.ModelPath())
@click.argument("second", metavar="B", type=options.ModelPath())
@documents
@common
def command(output: Output, first: str, second: str) -> int:
    """Compare the models A and B, or the models of two folders.

    The answer is whether B is a MAJOR, MINOR or PATCH change for the users of A. The comparison
    covers versions, interface, nodes by operator, weights by digest and metadata. opshift also
    converts A to the versions of B. If the converted A has the nodes and weights of B, both models
    compute the same results. In two folders, models with equal file names are compared, and the
    answer covers each model and the whole folder.
    """
    options.require_read_once(first, second)
    folders = [os.path.isdir(path) for path in (first, second)]
    if all(folders):
        return _folders(output, first, second)
    if any(folders):
        folder, file = (first, second) if folders[0] else (second, first)
        raise click.UsageError(
            f"{folder} is a folder and {file} is not; give two folders or two models"
        )
    from opshift.look.compare import diff

    with output.working("comparing"):
        difference = diff(first, second)
    output.result(difference.lines, difference.as_dict)
    return DONE


def _folders(output: Output, first: str, second: str) -> int:
    from opshift.zoo.folder_diff import diff_folders

    with output.working("comparing"):
        difference = diff_folders(first, second)
    output.result(difference.lines, difference.as_dict, good=not difference.unread)
    return BAD_INPUT if difference.unread else DONE
