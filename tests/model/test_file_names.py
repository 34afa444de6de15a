# SPDX-License-Identifier: Apache-2.0
"""Names of data files: a model can contain them, and the file system accepts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from opshift import convert_file
from opshift.model.bytes import file_names
from text_models import model

ODD = (b"a\xff.onnx", b"\xff", b"a\xff" + 250 * b"b", 255 * b"c", 127 * "é".encode())


@pytest.mark.parametrize("name", ODD, ids=repr)
def test_a_stem_is_utf8_and_leaves_room_for_a_suffix(name: bytes) -> None:
    stem = file_names.stem(os.fsdecode(name))
    assert len(stem.encode()) + len(".1234567.data") <= 255
    assert stem != file_names.stem(os.fsdecode(name + b"."))


def test_a_usual_name_is_its_own_stem() -> None:
    assert file_names.stem("größe\n.onnx") == "größe\n.onnx"


def test_a_long_name_keeps_as_much_as_the_suffix_allows() -> None:
    longest = 255 - len(".1234567.data")
    assert file_names.stem(longest * "c") == longest * "c"
    stem = file_names.stem((longest + 1) * "c")
    assert len(stem) == longest
    kept, _, digest = stem.partition("-")
    assert {*kept} == {"c"}
    assert len(digest) == 12


def test_a_digest_is_equal_for_names_that_a_file_system_may_not_distinguish() -> None:
    names = ("größe.onnx", "GRÖSSE.onnx", "gro\u0308ße.ONNX")
    (digest,) = {file_names.digest(name) for name in names}
    assert len(digest) == 12
    assert len({file_names.digest(name) for name in ("a", "b", "é", "e", "a\udcff")}) == 5


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems need UTF-8")
def test_a_result_with_a_name_that_is_not_utf8_has_a_data_file(tmp_path: Path) -> None:
    source, result = tmp_path / "in.onnx", tmp_path / os.fsdecode(b"a\xff.onnx")
    proto, numbers = model("(float[N] x) => (float[N] y) { y = Add(x, w) }"), np.arange(4096.0)
    proto.graph.initializer.append(numpy_helper.from_array(numbers.astype(np.float32), "w"))
    onnx.save(proto, source)
    for _ in range(2):  # the second result replaces the first one and its data
        convert_file(source, result, 13, external="one-file")
        weight = numpy_helper.to_array(onnx.load(result).graph.initializer[0])
        assert weight.tolist() == numbers.tolist()
        assert len([*tmp_path.iterdir()]) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems need UTF-8")
def test_a_locale_without_letters_can_write_any_name(tmp_path: Path) -> None:
    source = tmp_path / "in.onnx"
    onnx.save(model("(float[2] x) => (float[2] y) { y = Relu(x) }"), source)
    settings = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = ["-m", "opshift", "convert", source, "--to", "13", "-o", tmp_path / "größe.onnx"]
    subprocess.run([sys.executable, *words], env={**os.environ, **settings}, check=True)
    assert (tmp_path / "größe.onnx").exists()
