# SPDX-License-Identifier: Apache-2.0
"""Texts on which the parser of onnx would crash are rejected."""

from pathlib import Path

import opshift
import pytest
from opshift.look import info
from opshift.protos import text_form


def test_deep_texts_and_types_are_refused_before_the_parser(tmp_path: Path) -> None:
    texts = {
        "graphs": "then_branch = g () => () { y = If(x) <" * 5000,
        "types": "optional(" * 60_000,
    }
    for name, nested in texts.items():
        path = tmp_path / f"{name}.onnxtxt"
        start = (
            '<ir_version: 7, opset_import: ["": 12]> g (float[2] x) => (float[2] y) { y = If(x) <'
        )
        path.write_text(start + nested)
        with pytest.raises(opshift.InvalidModel, match="200 brackets are open in line 1"):
            info.info(path)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ("9" * 30, r"model: a number is outside the range of its type"),
        ("-", r"model: \[ParseError at position \(line: 1 column: 51\)\]"),
    ],
)
def test_the_reason_why_a_text_is_no_model_is_a_sentence(
    tmp_path: Path, shape: str, said: str
) -> None:
    path = tmp_path / "m.onnxtxt"
    path.write_text(f'<ir_version: 7, opset_import: ["": 12]> g (float[{shape}] x) => () {{}}')
    for isolate in (False, True):
        with pytest.raises(opshift.InvalidModel, match=said):
            opshift.convert_file(path, tmp_path / "result.onnx", 13, isolate=isolate)


def test_brackets_in_texts_and_comments_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "m.onnxtxt"
    head = '<ir_version: 7, opset_import: ["": 12], producer_name: "' + "(" * 300 + '">'
    path.write_text(f"{head}\n# {'{' * 300}\ng (float[2] x) => (float[2] y) {{ y = Neg(x) }}")
    for isolate in (False, True):
        assert opshift.check(path, isolate=isolate).found == ()


def test_a_text_of_quotes_is_looked_at_once() -> None:
    """A regular expression that returns to each quote would need hours for this text."""
    with pytest.raises(ValueError, match="ParseError"):
        text_form.parse('"\\' * 200_000)
