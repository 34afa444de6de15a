# SPDX-License-Identifier: Apache-2.0
"""Writes the index of the shipped adapters, which lists the declarations of each module.

Beside it stands the table of the operators that each adapter may write, read from its code.

    python -m tools.author index [--check]

Run it when an adapter is added or changed: until then its module is imported by every conversion.
`--check` writes nothing and exits with 1 if the index is not current.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import opshift_adapters
from opshift.author import emitted, index, registry

PATH = Path(str(opshift_adapters.__file__)).parent / index.INDEX


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args(argv)
    new = {
        PATH: registry.index_of(opshift_adapters),
        PATH.with_name(emitted.TABLE): emitted.table(registry.default().adapters()),
    }
    if args.check:
        return int(any(not p.is_file() or p.read_text("utf-8") != new[p] for p in new))
    for path, text in new.items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
