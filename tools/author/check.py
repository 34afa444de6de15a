# SPDX-License-Identifier: Apache-2.0
"""Compares the generated files of the repository with what the code generates.

    python -m tools.author check [NAME ...]

It writes nothing, and names each file that differs; then the exit code is 1. `update` writes them,
and `update --help` lists the names.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tools.author import generated
from tools.lib.program import described


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = described(__doc__)
    found = generated.differing(generated.names(parser, argv), write=False)
    for path in found:
        print(f"{path} is not current: run python -m tools.author update", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
