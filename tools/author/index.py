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
    index_is_current = _put(PATH, registry.index_of(opshift_adapters), check=args.check)
    written = emitted.table(registry.default().adapters())  # which reads the index
    table_is_current = _put(PATH.with_name(emitted.TABLE), written, check=args.check)
    return int(args.check and not (index_is_current and table_is_current))


def _put(path: Path, text: str, *, check: bool) -> bool:
    """Writes a file unless it is only checked; returns whether it was current."""
    current = path.is_file() and path.read_text("utf-8") == text
    if not check and not current:
        path.write_text(text, "utf-8")
    return current


if __name__ == "__main__":
    sys.exit(main())
