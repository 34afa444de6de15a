# SPDX-License-Identifier: Apache-2.0
"""Python interpreters that have a stub of a runtime."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

STUBS = Path(__file__).with_name("fake_runtime")


def fake_python(folder: Path, rules: dict[str, str], *, stubs: Path = STUBS) -> str:
    """An interpreter whose onnxruntime does not run some operators or opsets."""
    path = folder / "python"
    environment = f"FAKE_RUNTIME={shlex.quote(json.dumps(rules))} PYTHONPATH={stubs}"
    path.write_text(f'#!/bin/sh\n{environment} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return str(path)
