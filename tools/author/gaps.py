# SPDX-License-Identifier: Apache-2.0
"""Lists the parts of an operator's meaning that no example of an adapter covers.

    python -m tools.author gaps [--table]

An example of every adapter that rewrites, or a legal variant of one, must have each attribute off
its default, each optional input given and absent, each class of element types, an input of unknown
rank, of unknown size and without elements, and a use in a subgraph. `tools/author/gaps.toml` lists
the gaps that stay, with reasons. The exit code is 1 if a gap has no reason, or a reason no gap.
`--table` prints for each operator and crossing what covers each part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from opshift.testing.meaning import coverage, gaps
from opshift.testing.surveys import reasons

from tools.lib.program import described

PACKAGE = "opshift_adapters"
REASONS = Path(__file__).with_suffix(".toml")


def table() -> Iterator[str]:
    """In Markdown, one row for each part of the meaning of an operator at a crossing."""
    yield "| domain | operator | from | to | a gap if nothing covers it | covered by |"
    yield "|---|---|---|---|---|---|"
    for (domain, op, start, to), covered in coverage(PACKAGE):
        for gap, by in covered.items():
            yield f"| {domain or 'ai.onnx'} | {op} | {start} | {to} | {gap} | {by or 'nothing'} |"


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = described(__doc__)
    parser.add_argument("--table", action="store_true", help="print what covers each part")
    if parser.parse_args(argv).table:
        print("\n".join(table()))
        return 0
    found, known = gaps(PACKAGE), reasons(REASONS)
    new = [line for line in found if line not in known]
    closed = [line for line in known if line not in found]
    told = [*(f"new: {line}" for line in new), *(f"closed: {line}" for line in closed)]
    print("\n".join([*told, f"{len(found)} gaps, {len(new)} of them new"]))
    return int(bool(told))


if __name__ == "__main__":
    raise SystemExit(main())
