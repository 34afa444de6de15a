# SPDX-License-Identifier: Apache-2.0
"""An adapter's sentence in reports is its docstring, which `python -OO` removes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opshift.author.example import Draft

SCRIPT = """
import sys, onnx.parser, opshift
text = '<ir_version: 8, opset_import: ["": 12]> g (float[2,3] x) => (float[2,3] y) {y = Softmax(x)}'
result = opshift.convert(onnx.parser.parse_model(text), 13)
sys.stdout.write(result.model.SerializeToString(deterministic=True).hex())
sys.stderr.write(str(result.report))
"""


def converted(*flags: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-B", *flags, "-c", SCRIPT]
    return subprocess.run(words, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("flags", [("-O",), ("-OO",)])
def test_python_without_docstrings_converts_the_same(flags):
    usual, optimized = converted(), converted(*flags)
    assert optimized.stdout == usual.stdout != ""
    assert "Softmax" in optimized.stderr


def test_a_function_without_a_docstring_has_no_sentence():
    assert Draft(lambda node, op: None).sentence == ""
