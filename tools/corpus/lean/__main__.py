# SPDX-License-Identifier: Apache-2.0
"""Measures how lean converted models are: their nodes, and their latency in onnxruntime.

    python -m tools.corpus lean [--corpus FOLDER] [--only GLOB ...] [--to 13 11 9] [--no-latency]
        [--modernize 23] [--seconds 0.2] [--json FILE] [--page docs/maintain/lean.md]

FOLDER holds a folder for each model, with model.onnx and inputs.npz. These things are measured:

* families: models of the names `..._opN` are exports of one model at several opsets. Each is
  converted to the opset of each other, and its nodes are compared with those of the other export.
  Nodes of the operator Constant are left out, because a conversion writes initializers instead.
* the whole corpus at each opset of --to: nodes before and after, nodes that nothing reads, and the
  steps that add most nodes.
* with --modernize, the newer operators that the option writes at these opsets.
* latency: every model and its conversions run by turns in one process, with one thread.

Who runs it: whoever changes what an adapter writes; before a release with --page.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from . import latency, size_tables, sizes

DEFAULT = Path(__file__).resolve().parents[4] / "shared" / "corpus"


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = _parser().parse_args(words)
    if not args.corpus.is_dir():
        print(f"there is no corpus at {args.corpus}; nothing to measure")
        return 0
    folders = [
        path.parent
        for path in sorted(args.corpus.glob("*/model.onnx"))
        if not args.only or any(fnmatch.fnmatch(path.parent.name, glob) for glob in args.only)
    ]
    found = size_tables.Measured(pairs=list(sizes.pairs(folders)))
    found.totals = [sizes.total(folders, target) for target in args.to]
    found.modernized = [sizes.modernized(folders, target) for target in args.modernize]
    if not args.no_latency:
        found.speeds = list(latency.speeds(folders, args.to, args.seconds))
    print(size_tables.text(found))
    if args.json:
        args.json.write_text(json.dumps(found.as_json(), indent=1) + "\n")
    if args.page:
        args.page.write_text(
            size_tables.page(found, f"python -m tools.corpus lean {shlex.join(words)}")
        )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.corpus lean",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--corpus", type=Path, default=DEFAULT, metavar="FOLDER", help=f"default: {DEFAULT}")
    add("--only", nargs="+", default=[], metavar="GLOB", help="models by name")
    add("--to", type=int, nargs="+", default=[13, 11, 9], metavar="OPSET", help="default: 13 11 9")
    add("--modernize", type=int, nargs="+", default=[], metavar="OPSET", help="count its sites")
    add("--no-latency", action="store_true", help="count nodes only")
    add("--seconds", type=float, default=0.2, help="time for each model and opset (0.2)")
    add("--json", type=Path, metavar="FILE", help="write every figure")
    add("--page", type=Path, metavar="FILE", help="write the page of the documentation")
    return parser


if __name__ == "__main__":
    sys.exit(main())
