# SPDX-License-Identifier: Apache-2.0
"""Operators are found by a word of their descriptions."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from opshift.cli.entry import main
from opshift.opsets import schemas
from opshift.opsets.operator_search import described_by


@pytest.mark.parametrize(
    ("word", "op"), [("multiply", "Mul"), ("Subtract", "Sub"), ("cosine", "Cos")]
)
def test_an_operator_is_found_by_a_form_of_a_word(word: str, op: str) -> None:
    assert op in described_by(word, "", schemas.operators(""))


@pytest.mark.parametrize("word", ["", "a", "NoSuch", "(unclosed"])
def test_other_words_find_nothing(word: str) -> None:
    assert described_by(word, "", schemas.operators("")) == []


def test_an_operator_that_the_installed_onnx_lacks_has_no_description() -> None:
    assert described_by("multiply", "", ["OfALaterRelease", "Mul"]) == ["Mul"]


def test_the_command_suggests_by_meaning() -> None:
    done = CliRunner().invoke(main, ["ops", "multiply"])
    assert done.exit_code == 2
    (line,) = (line for line in done.output.splitlines() if "no operator" in line)
    assert "the descriptions of" in line
    assert "Mul," in line
