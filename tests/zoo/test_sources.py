# SPDX-License-Identifier: Apache-2.0
"""A run finds every model below a folder, and hides no folder that it cannot list."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from opshift.zoo import sources


@pytest.fixture
def locked(tmp_path, monkeypatch) -> Path:
    """A folder with a model, and a folder in it that cannot be listed, even by root."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.onnx").write_bytes(b"")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if os.path.basename(path) == "sub":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    return tmp_path


def test_a_folder_that_cannot_be_listed_is_found_as_a_model(locked):
    found = sources.find(str(locked))
    assert found == [("a.onnx", str(locked / "a.onnx")), ("sub", str(locked / "sub"))]


def test_a_source_that_cannot_be_listed_is_an_error(locked):
    with pytest.raises(PermissionError):
        sources.find(str(locked / "sub"))


def test_the_extension_of_a_model_has_any_case(tmp_path):
    for name in ("a.ONNX", "b.onnx", "c.Onnx", "d.txt"):
        (tmp_path / name).touch()
    assert [name for name, _ in sources.find(str(tmp_path))] == ["a.ONNX", "b.onnx", "c.Onnx"]
    assert sources.find(str(tmp_path / "a.ONNX")) == [("a.ONNX", str(tmp_path / "a.ONNX"))]
