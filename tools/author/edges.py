# SPDX-License-Identifier: Apache-2.0
"""Runs every example of the adapters on many sets of inputs: ordinary values, and the edges.

    python -m tools.author edges [--only TEXT] [--sets nan infinite] [--sample] [--all]
                                 [--variants [--convert] | --empty]

Each example is converted. The original and the result then run on each set of inputs in
`opshift.testing.input_sets`: no elements, one element, negative numbers, ties, repeated places, the
largest integers, extreme floats, infinities, NaN. onnxruntime computes where it runs both models,
otherwise the oracle. Results are compared by the rules in `docs/explain/decisions/0005-what-counts-
as-equal.md`. A set for which the original has no result is left out. A process that crashes counts
as a difference. `--variants` runs the variants of each example instead: unknown ranks and sizes,
other element types, a use in a branch, branches in its graphs, each attribute at and off its
default, and each optional input and output that the example leaves out. With `--convert`, variants
have to convert or to be refused, and nothing is computed. `--empty` runs each example with each
dimension of its inputs and constants without elements. `tools/author/edges.toml` holds the reasons
for the differences that stay, and `tools/author/empties.toml` those of `--empty`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opshift.testing.input_sets import SETS
from opshift.testing.surveys import emptied, reasons, sampled, subjects, survey, varied

from tools.lib.program import described

PACKAGE = "opshift_adapters"
REASONS = Path(__file__).with_suffix(".toml")
REASONS_OF_EMPTIES = Path(__file__).with_name("empties.toml")


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit code is 1 if a difference is unexplained."""
    parser = described(__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="a part of the example's name")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--sample", action="store_true", help="one example of each adapter")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--all", action="store_true", help="list what edges.toml explains, too")
    parser.add_argument("--variants", action="store_true", help="variants in place of inputs")
    parser.add_argument("--empty", action="store_true", help="each dimension without elements")
    parser.add_argument("--convert", action="store_true", help="compute no variant")
    args = parser.parse_args(argv)
    chosen = [one for one in subjects(PACKAGE) if args.only in one.name]
    if args.sample:
        chosen = list(sampled(chosen, args.seed))
    if args.empty:
        done = emptied(chosen)
    elif args.variants:
        done = varied(chosen, compare=not args.convert)
    else:
        done = survey(chosen, args.sets)
    new = done.unexplained(reasons(REASONS_OF_EMPTIES if args.empty else REASONS))
    print("\n".join([*(done.found if args.all else new), *(f"not run: {n}" for n in done.idle)]))
    print(
        f"{len(done.ran)} examples, {sum(done.ran.values())} comparisons,"
        f" {len(done.found)} differences, {len(new)} of them unexplained"
    )
    return bool(new)


if __name__ == "__main__":
    raise SystemExit(main())
