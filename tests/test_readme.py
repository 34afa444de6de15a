# SPDX-License-Identifier: Apache-2.0
"""The README's Python runs as it stands there."""

import re
import shutil
from pathlib import Path

import pytest
from opshift.opsets import schemas

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.skipif((schemas.latest("") or 0) < 21, reason="it converts to opset 21")
def test_the_example_runs(tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    exec(compile(code.group(1), "README.md", "exec"), {})
    assert "Reachable: opset 5 to" in capsys.readouterr().out
    assert (tmp_path / "attention_opset21.onnx").exists()
