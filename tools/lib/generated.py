# SPDX-License-Identifier: Apache-2.0
"""Files that a tool writes, and a test compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.lib.program import described


def write(
    doc: str | None, files: Mapping[Path, Callable[[], str]], argv: Sequence[str] | None
) -> int:
    """The command that writes generated files; with `--check` it only compares them."""
    parser = described(doc)
    parser.add_argument("--check", action="store_true", help="write nothing")
    checks = parser.parse_args(argv).check
    stale = False
    for path, text_of in files.items():
        text = text_of()
        if not path.is_file() or path.read_text("utf-8") != text:
            stale = True
            if not checks:
                path.write_text(text, "utf-8")
    return int(checks and stale)
