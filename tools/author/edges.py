# SPDX-License-Identifier: Apache-2.0
"""Runs every example of the adapters on many sets of inputs: ordinary values and edge cases.

    python -m tools.author edges [--only TEXT] [--sets nan infinite] [--sample] [--all]
                                 [--variants [--convert] | --empty]

Each example is converted. The original and the result then run on each set of inputs in
`opshift.testing.input_sets`: no elements, one element, negative numbers, ties, repeated indices,
the largest integers, extreme floats, infinities, NaN. onnxruntime runs the models if it supports
both, otherwise the oracle does. Results are compared by the rules of
`docs/explain/decisions/0005-what-counts-as-equal.md`. A set for which the original has no result is
skipped. A crash counts as a difference. `--variants` runs variants of each example instead: unknown
ranks and sizes, other element types, a node in a branch, branches in subgraphs, each attribute with
and without its default, and each absent optional input and output. With `--convert`, variants must
convert or be refused, but models do not run. `--empty` sets each dimension of inputs and constants
to 0. `edges.toml` has the reasons for accepted differences; for `--empty`, `empties.toml` has.
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
    """Runs the tool; the exit code is 1 if a difference is unexplained."""
    parser = described(__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="a part of the example's name")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--sample", action="store_true", help="one example of each adapter")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the sample")
    parser.add_argument("--all", action="store_true", help="also list accepted differences")
    parser.add_argument("--variants", action="store_true", help="run variants of examples")
    parser.add_argument("--empty", action="store_true", help="set each dimension to 0")
    parser.add_argument("--convert", action="store_true", help="convert variants, but run no model")
    args = parser.parse_args(argv)
    chosen = [listed for listed in subjects(PACKAGE) if args.only in listed.name]
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
