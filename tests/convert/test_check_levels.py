# SPDX-License-Identifier: Apache-2.0
"""The levels of `check`: default, full (calls onnx for the whole model), and none."""

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from opshift import BadTarget, InvalidModel, convert_version
from opshift.cli.entry import main
from opshift.convert.legal import checker
from text_models import model

PLAIN = "(float[2,3] x) => (float[2,3] y) { h = Relu(x) y = Softmax(h) }"


@pytest.fixture
def asked(monkeypatch):
    """The whole-model calls of a conversion."""
    seen = []
    genuine = checker.whole

    def watched(view, adapters, *, full):
        seen.append(full)
        return genuine(view, adapters, full=full)

    monkeypatch.setattr(checker, "whole", watched)
    return seen


@pytest.mark.parametrize(
    ("check", "calls"),
    [
        ("default", [False, True]), (True, [False, True]), ("full", [False, True, True]), ("none", []), (False, []),
    ],
)  # fmt: skip
def test_each_level_makes_its_calls(asked, check, calls):
    after = convert_version(model(PLAIN, opset=12), 13, check=check)
    assert asked == calls
    onnx.checker.check_model(after, full_check=True)


def test_other_words_are_no_level():
    with pytest.raises(BadTarget, match="check is 'some'; give 'default', 'full' or 'none'"):
        convert_version(model(PLAIN, opset=12), 13, check="some")


@pytest.mark.parametrize("level", ["default", "full", "none"])
def test_the_command_has_the_same_levels(level, tmp_path):
    source, result = str(tmp_path / "a.onnx"), tmp_path / "b.onnx"
    onnx.save(model(PLAIN, opset=12), source)
    words = ["convert", source, "--to", "13", "--checks", level, "-o", str(result)]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert onnx.load(result).opset_import[0].version == 13


def test_a_large_constant_is_checked_like_a_small_one():
    """The checks skip the tensor of the constant, but not its node."""
    before = model("() => (float[2000] y) { y = Constant<value = float[1] {0}>() }", 13)
    value = before.graph.node[0].attribute[0]
    value.t.CopyFrom(onnx.numpy_helper.from_array(np.zeros(2000, np.float32)))
    assert convert_version(before, 12).graph.node[0] == before.graph.node[0]
    value.type = onnx.AttributeProto.SPARSE_TENSORS
    with pytest.raises(InvalidModel, match="is SPARSE_TENSORS, not TENSOR"):
        convert_version(before, 12)
