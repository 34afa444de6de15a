# SPDX-License-Identifier: Apache-2.0
"""The guide of authors has one heading for each name of the public API."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from opshift import adapter

GUIDE = Path(__file__).parents[2] / "docs" / "howto" / "write-an-adapter.md"


def test_each_name_has_one_heading():
    declarations = {name.replace("_", "") for name in adapter.__all__ if name.islower()}
    classes = {
        name for name in adapter.__all__ if name.lower() in declarations and not name.islower()
    }
    headings = re.findall(r"^## .*?`@?(\w+)`$", GUIDE.read_text("utf-8"), re.MULTILINE)
    assert Counter(headings) == Counter(set(adapter.__all__) - classes)
    assert classes
