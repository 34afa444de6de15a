# SPDX-License-Identifier: Apache-2.0
"""The tool that counts the models which runtimes load before and after a change of types."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
from opshift.testing.model_text import parse_model

from tools.corpus import type_changes as tool

TEXT = '<ir_version: 8, opset_import: ["" : 17]> g ({0}[3] x) => ({0}[3] y) {{ y = Neg(x) }}'


class Picky:
    """A runtime that loads no bfloat16."""

    def __init__(self, release: str) -> None:
        self.release = release

    def judge(self, model: Path, folder: Path) -> dict[str, str]:
        kind = onnx.load(model).graph.input[0].type.tensor_type.elem_type
        loads = kind != onnx.TensorProto.BFLOAT16
        return {"outcome": "right" if loads else "not loaded", "why": "no kernel of 'x'"}

    def close(self) -> None: ...


def test_models_with_the_types_are_counted(tmp_path, monkeypatch, capsys):
    for kind in ("bfloat16", "double", "int32"):
        (tmp_path / kind).mkdir()
        onnx.save(parse_model(TEXT.format(kind)), tmp_path / kind / "model.onnx")
    monkeypatch.setattr(tool, "install", lambda release: release)
    monkeypatch.setattr(tool, "Runner", Picky)
    words = ["type_changes", "--corpus", str(tmp_path), "--ort", "1.17.3", "--list"]
    monkeypatch.setattr(sys, "argv", words)
    assert tool.main() == 0
    told = capsys.readouterr().out
    assert "2 models have one of the types" in told
    assert "| onnxruntime 1.17.3 | 1 | 2 |" in told
    assert "as they are: 1 x not loaded: no kernel of .." in told
