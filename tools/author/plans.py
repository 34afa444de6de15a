# SPDX-License-Identifier: Apache-2.0
"""Writes the table of solved verdicts that conversions follow.

    python -m tools.author plans [--check]

Run it when an adapter is added or writes other operators, or when a feature of the IR changes;
`--check` writes nothing and exits with 1 if the table is not what the planner computes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import opshift
from opshift.author import registry
from opshift.convert import plan_table, verdict_edges
from opshift.convert.ir import ir_plan

from tools.lib import generated

PATH = Path(opshift.__file__).parent / "convert" / plan_table.TABLE


def table() -> str:
    """The verdicts of operators, and then those of the features of the IR."""
    return verdict_edges.table_of(registry.default()) + ir_plan.table()


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    return generated.write(__doc__, {PATH: table}, argv)


if __name__ == "__main__":
    sys.exit(main())
