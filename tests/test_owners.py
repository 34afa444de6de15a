# SPDX-License-Identifier: Apache-2.0
"""Each concept has one owner; the page that counts the files is current."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import opshift
import pytest

ENGINE = Path(str(opshift.__file__)).parent
PAGE = Path(__file__).parents[1] / "docs/explain/decisions/0010-rooms-and-floors.md"
FETCHED = "registry.default()"
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


def test_only_functions_that_a_caller_imports_fetch_the_registry():
    hidden = []
    for path in ENGINE.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef) and FETCHED in ast.unparse(function):
                given = [node.arg for node in ast.walk(function) if isinstance(node, ast.arg)]
                if function.name.startswith("_") or "adapters" in given:
                    hidden.append(f"{path.relative_to(ENGINE)}: {function.name}")
    assert not hidden, "pass the registry to these functions as the argument `adapters`"
