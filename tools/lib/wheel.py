# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel with the cases of the adapters, because `opshift probe` makes models of them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from setuptools.command.build_py import build_py

OWNER = Path("converter/opshift/testing/case_files.py")
CASES = re.findall(r'^CASES = "(.*)"$', OWNER.read_text(), re.MULTILINE)[0]


class WithCases(build_py):
    """Copies the packages, and the cases to the folder in which opshift looks for cases."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            shutil.copytree(CASES, f"{self.build_lib}/opshift_adapters/{CASES}", dirs_exist_ok=True)
