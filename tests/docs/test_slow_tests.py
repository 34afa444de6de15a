# SPDX-License-Identifier: Apache-2.0
"""The page about slow tests names tests that exist, and says of each what only it finds."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "maintain" / "slow-tests.md"


def test_each_slow_part_exists_and_has_a_benefit():
    rows = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if "| `tests/" in line]
    assert len(rows) > 20
    for parts, benefit in rows:
        names = re.findall(r"`([^`]+)`", parts)
        assert names
        assert all((ROOT / name).is_file() for name in names), names
        assert len(benefit.split()) >= 5, names
