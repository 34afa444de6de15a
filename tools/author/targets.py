# SPDX-License-Identifier: Apache-2.0
"""Writes the table of runtimes in the form that is shipped, from targets.toml.

    python -m tools.author targets [--check]

Run it when targets.toml is changed; `--check` writes nothing and exits with 1 if the shipped form
says something else.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from opshift.opsets import targets

FOLDER = Path(targets.__file__).parent


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args(argv)
    path = FOLDER / targets.SHIPPED
    new = targets.shipped_of((FOLDER / "targets.toml").read_text("utf-8"))
    if args.check:
        return int(path.read_text("utf-8") != new)
    path.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
