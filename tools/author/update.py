# SPDX-License-Identifier: Apache-2.0
"""Regenerates the generated files of the repository.

    python -m tools.author update [NAME ...]

NAME is one of the following; without a name, all are written, in this order.

    ops_database  opset_changelog.bin: the operator database, with operators of the installed onnx
    targets       targets.json: the shipped form of targets.toml
    schema        outcomes.schema.json: the fields of each JSON object that a command prints
    index         index.txt, writes.txt: the adapters, and the operators that each adapter writes
    plans         plans.txt: the adapters that conversions choose
    lengths       lengths.txt: the number of nodes and inputs of the result of each example

A line of `tests/adapters/lengths.txt` has the module, the operators, the step and the title of an
example, then the sizes of its results, one for each operator and variant. `3/7` means 3 nodes with
7 inputs and attributes; `3/7=` means that the nodes equal those of the original.
`docs/maintain/regenerate.md` lists the generated files that need other machines.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tools.author import generated
from tools.lib.program import described


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool."""
    parser = described(__doc__)
    for path in generated.update(generated.names(parser, argv)):
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
