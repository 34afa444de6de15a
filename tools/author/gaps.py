# SPDX-License-Identifier: Apache-2.0
"""Which parts of an operator's meaning no example of a rewriting adapter covers.

    python -m tools.author gaps

Each attribute must be off its default, and each optional input given and absent, in an example of
every adapter that rewrites, or in a legal variant of one. `tools/author/gaps.toml` lists the gaps
that stay, with reasons. The exit code is 1 if a gap has no reason, or a reason no gap.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from opshift.testing.meaning import gaps
from opshift.testing.surveys import reasons

PACKAGE = "opshift_adapters"
REASONS = Path(__file__).with_suffix(".toml")


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args(argv)
    found, known = gaps(PACKAGE), reasons(REASONS)
    new = [line for line in found if line not in known]
    closed = [line for line in known if line not in found]
    told = [*(f"new: {line}" for line in new), *(f"closed: {line}" for line in closed)]
    print("\n".join([*told, f"{len(found)} gaps, {len(new)} of them new"]))
    return int(bool(told))


if __name__ == "__main__":
    raise SystemExit(main())
