# SPDX-License-Identifier: Apache-2.0
"""A new opset: its changes are listed, and stubs of the verdicts are written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from newest_onnx import IS_OLDER
from opshift import versions

from tools.author import new_opset

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(
    IS_OLDER,
    reason="the made-up opset follows the newest one",
)
def test_the_whole_way_from_a_refusal_to_a_conversion():
    path = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "support" / "next_opset.py")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    stages = dict(line.split(":", 1) for line in done.stdout.splitlines())
    assert stages["unknown"].strip().startswith("BadTarget: ")
    assert stages["unknown"].strip().endswith("or install a newer opshift")
    assert stages["no verdict"].strip().startswith("Refused: ")
    assert "attribute tilt was added, with the default 0.0" in stages["stubs"]
    new = versions.RELEASES[-1].onnx + 1
    assert f"relu_{new} = boundary({new}," in stages["stubs"]
    assert f"def made_up_{new}_{new - 1}(node: Node, op: Builder) -> Result:" in stages["stubs"]
    assert stages["with the stub"].strip() == "Relu"
    assert stages["upgrade test"].strip() == "MadeUp"


def test_no_verdict_is_missing_for_the_installed_onnx(capsys):
    assert new_opset.main([]) == 0
    assert "has its verdicts" in capsys.readouterr().out


def test_a_change_of_prose_or_function_body_reopens_its_claim():
    record = json.loads(new_opset.TEXTS.read_text())
    releases = record.pop(new_opset.RELEASES)
    if onnx.__version__ not in releases and onnx.__version__ < max(releases):
        pytest.skip(f"the texts of onnx {onnx.__version__} were not recorded: a newer one was read")
    opened = [name for name, digest in new_opset.texts() if digest not in record.get(name, ())]
    assert not opened, "read the new texts, then run: python -m tools.author new_opset --accept"
