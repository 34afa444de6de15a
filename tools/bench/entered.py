# SPDX-License-Identifier: Apache-2.0
"""Counts the files of the engine and the adapters that a small conversion enters.

    python -m tools.bench entered [--to 12] [--list]

A model of three nodes is converted in a process that converted another model before. A call of a
function enters its file; a call from one file into another is a change of file. The counts are for
the first conversion of the model and for a later one. `--list` names the files of the later one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import onnx.parser
import opshift
import opshift_adapters

ROOTS = tuple(str(Path(str(one.__file__)).parent) for one in (opshift, opshift_adapters))
TEXT = """<ir_version: 8, opset_import: ["" : 13]> g (float[2,3] x) => (float[2,3] y)
    { a = Relu(x) b = Softmax<axis=1>(a) y = Sqrt(b) }"""
OTHER = TEXT.replace("Relu", "Exp").replace("Softmax", "Hardmax").replace("Sqrt", "Tan")


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=int, default=12, help="the wanted opset")
    parser.add_argument("--list", action="store_true", help="name the files")
    args = parser.parse_args(argv)
    opshift.convert_version(onnx.parser.parse_model(OTHER), args.to)
    found: list[str] = []
    print("| conversion | files | changes of file | calls |\n|---|---|---|---|")
    for name in ("first", "later"):
        found = entered(TEXT, args.to)
        changes = sum(one != after for one, after in pairwise(found))
        print(f"| {name} | {len(set(found))} | {changes} | {len(found)} |")
    if args.list:
        print("\n".join(sorted(set(found))))
    return 0


def entered(text: str, to: int) -> list[str]:
    """The file of each call during a conversion, in order."""
    model, found = onnx.parser.parse_model(text), list[str]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(ROOTS) and frame.f_code.co_name != "<module>":
            found.append(path)

    sys.setprofile(note)
    try:
        opshift.convert_version(model, to)
    finally:
        sys.setprofile(None)
    return found
