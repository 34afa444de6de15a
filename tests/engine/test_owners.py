# SPDX-License-Identifier: Apache-2.0
"""Each concept has one owner: the page that counts the files tells what is there."""

from __future__ import annotations

import re
from pathlib import Path

import opshift
import pytest

ENGINE = Path(str(opshift.__file__)).parent
PAGE = Path(__file__).parents[2] / "docs/explain/decisions/0010-rooms-and-floors.md"
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in PAGE.read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| concept")
]


@pytest.mark.parametrize("owner", [row[2] for row in ROWS])
def test_the_owner_exists(owner):
    assert not owner.endswith(".py`") or (ENGINE / owner.strip("`")).is_file()


@pytest.mark.parametrize("row", [row for row in ROWS if len(row) == 6], ids=lambda row: row[0])
def test_as_many_files_name_the_concept_as_the_page_says(row):
    pattern = row[3].strip("`")
    found = [p for p in ENGINE.rglob("*.py") if re.search(pattern, p.read_text("utf-8"))]
    assert len(found) == int(row[5]), found
