# SPDX-License-Identifier: Apache-2.0
"""Each generated file of the repository begins with the command that makes it and its format."""

from __future__ import annotations

import re

import pytest

from tools.author import generated

FILES = [
    (name, path)
    for name in generated.NAMES
    for path in generated.generators(name)
    if path.suffix != ".bin"
]
OTHERS = sorted((generated.ROOT / "converter/opshift/opsets").glob("*.txt"))


@pytest.mark.parametrize(("name", "path"), FILES, ids=[path.name for _, path in FILES])
def test_a_generated_file_names_its_command(name, path):
    (line,) = re.findall(r"python -m tools\.author update \w+, format \d+", path.read_text()[:200])
    assert f"update {name}, format {generated.FORMAT}" in line


@pytest.mark.parametrize("path", OTHERS, ids=[path.name for path in OTHERS])
def test_a_measured_file_names_its_command(path):
    command = r"(python -m tools\.[\w. -]+|opshift probe [\w. /-]+)"
    assert re.match(rf"# {command}, format \d+\n", path.read_text())
