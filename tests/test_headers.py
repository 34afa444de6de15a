# SPDX-License-Identifier: Apache-2.0
"""Every source file names the licence in its first line."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADER = "# SPDX-License-Identifier: Apache-2.0"
GENERATED = ("_pb2.py",)  # by protoc, which writes its own first line


def test_every_source_file_has_the_header():
    files = [
        path
        for folder in ("converter", "adapters", "tools", "tests", "examples", "docs", ".github")
        for path in (ROOT / folder).rglob("*.py")
        if not path.name.endswith(GENERATED) and "egg-info" not in str(path)
    ]
    assert len(files) > 300
    without = [
        str(path.relative_to(ROOT))
        for path in files
        if HEADER not in path.read_text(encoding="utf-8").splitlines()[:2]
    ]
    assert not without, f"put {HEADER!r} at the top of {', '.join(without)}"
