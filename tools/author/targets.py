# SPDX-License-Identifier: Apache-2.0
"""Writes the table of runtimes in the form that is shipped, from targets.toml.

    python -m tools.author targets [--check]

Run it when targets.toml is changed; `--check` writes nothing and exits with 1 if the shipped form
says something else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from opshift.opsets import targets

from tools.lib import generated

FOLDER = Path(targets.__file__).parent


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    source = FOLDER / "targets.toml"
    shipped = {FOLDER / targets.SHIPPED: lambda: targets.shipped_of(source.read_text("utf-8"))}
    return generated.write(__doc__, shipped, argv)


if __name__ == "__main__":
    sys.exit(main())
