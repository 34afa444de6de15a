# SPDX-License-Identifier: Apache-2.0
"""Compares the generated files of the repository with the output of their generators.

    python -m tools.author check [NAME ...]

The tool writes nothing and names each file that differs; then the exit code is 1. `update` writes
the files, and `update --help` lists the names. Without a name, the tool also lists the branches of
adapters that no example reaches, because this check needs the results of the examples, too.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence

from tools.author import branches, generated
from tools.lib.program import described

OF_EXAMPLES = ("index", "lengths")  # generated from the results of the examples


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool."""
    parser = described(__doc__)
    chosen = generated.names(parser, argv)
    parts = [[name for name in chosen if (name in OF_EXAMPLES) == of] for of in (True, False)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        measured = len(chosen) == len(generated.NAMES)
        objections_of_parts = pool.starmap(_objections, zip(parts, (measured, False), strict=True))
    for objection in (sentence for part in objections_of_parts for sentence in part):
        print(objection, file=sys.stderr)
    return int(any(objections_of_parts))


def _objections(names: Sequence[str], measured: bool) -> list[str]:
    """Lists the files that differ; with `measured`, also the branches that no example reaches."""
    left = branches.unreached() if measured else []
    paths = [path for name in names for path in generated.differing(name)]
    outdated = [f"{path} is not current: run python -m tools.author update" for path in paths]
    return [*outdated, *left, *([branches.ADVICE] if left else [])]


if __name__ == "__main__":
    sys.exit(main())
