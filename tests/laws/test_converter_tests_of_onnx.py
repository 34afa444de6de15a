# SPDX-License-Identifier: Apache-2.0
"""Law: models of onnx's own converter tests give equal numbers, or are refused for a reason.

onnx contains these tests up to release 1.22. OPSHIFT_ONNX_TESTS names the folder of another
release; `.ci/run` runs the tests of 1.22 with the newest onnx. The package `parameterized` has to
be installed. Only the models and targets of the tests are used, because their assertions about
nodes describe another converter.
"""

from __future__ import annotations

import importlib
import os
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx.version_converter
import pytest
from onnx import ModelProto
from opshift import InvalidModel, Refused, convert_version
from opshift.author import registry
from opshift.convert.legal import checker
from opshift.testing.judge_process import shared

pytest.importorskip("onnxruntime")
FOLDER = Path(os.environ.get("OPSHIFT_ONNX_TESTS") or Path(onnx.__file__).parent / "test")
MODULES = ("automatic_upgrade_test", "automatic_downgrade_test", "version_converter_test")
REFUSED = {"test_non_existent_op": "NOT_EXPRESSIBLE"}  # and onnx refuses it, too
INVALID = {
    "test_batch_normalization_5_8": "the required attribute consumed_inputs is missing",
    "test_batch_normalization_8_5": "the data has no axis of channels",
    "test_concat_3_5": "the axis is not below the rank",
    "test_dequantize_21_20_3_per_tensor_positive_block_shape": "blocks of a vector of scales",
    "test_dequantize_21_20_4_per_axis_positive_block_shape": "blocks of a vector of scales",
    "test_gemm_7_6_rejects_1d_A": "the first input is no matrix",
    "test_gemm_7_6_rejects_1d_input": "an input is no matrix",
    "test_quantize_21_20_3_per_tensor_positive_block_shape": "blocks of a vector of scales",
    "test_quantize_21_20_4_per_axis_positive_block_shape": "blocks of a vector of scales",
    "test_quantize_21_20_8_per_axis_unsupported_type": "the scales do not fit the axis",
    "test_rejects_missing_required_inputs_0_cast_9_8": "Cast without an input",
    "test_rejects_missing_required_inputs_1_softmax_12_13": "Softmax without an input",
    "test_rejects_missing_required_inputs_2_upsample_9_10": "Upsample without inputs",
    "test_softmax_13_12_rejects_malformed_flatten_input": "Flatten without an input",
    "test_split_with_optional_input": "the axis is not below the rank",
    "test_split_13_12_raw_data_dims_mismatch_rejected": "a tensor with too few bytes",
}
INPUTS = {"test_dft20_unknown_axis": {"axis": 1}, "test_Resize": {"b": [1, 2, 3]}}
NOT_COMPARED = {"test_GroupNormalization": "in 1.17 its scales do not fit the number of groups"}


def cases() -> Iterator[type[unittest.TestCase]]:
    """The classes of tests that the installed onnx ships."""
    folders = [str(FOLDER), str(FOLDER / "version_converter")]
    if not (FOLDER / "version_converter").is_dir():
        return
    pytest.importorskip("parameterized")
    sys.path[:0] = folders
    try:
        for name in MODULES:
            found = vars(importlib.import_module(name)).values()
            yield from (
                one
                for one in found
                if isinstance(one, type) and issubclass(one, unittest.TestCase)
                if one.__module__ == name
            )
    finally:
        del sys.path[: len(folders)]


TESTS = [
    pytest.param(case, name, id=name)
    for case in cases()
    for name in unittest.defaultTestLoader.getTestCaseNames(case)
]


class Converter:
    """Converts the models of onnx's tests, and records the faults of the results."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.wrong: list[str] = []

    def __call__(self, model: ModelProto, target: int) -> ModelProto:
        self.calls += 1
        try:
            after = convert_version(model, target)
        except Exception as error:
            self.wrong += self._unexpected(error)
            raise RuntimeError(str(error)) from error
        if self.name in REFUSED or self.name in INVALID:
            self.wrong.append("it converts; take it off the list")
        if rejects(model) is None and (told := rejects(after)):
            self.wrong.append(told)
        if self.name not in NOT_COMPARED:
            answers = shared().compare(model, after, INPUTS.get(self.name, {}), ["given"])
            self.wrong += [told for _, told in answers if told]
        return after

    def _unexpected(self, error: Exception) -> Iterator[str]:
        if isinstance(error, Refused):
            reasons = {refusal.why.name for refusal in error.refusals}
            expected = reasons == {REFUSED.get(self.name)}
        else:
            expected = isinstance(error, InvalidModel) and self.name in INVALID
        if not expected:
            yield f"{type(error).__name__}: {error}"


def rejects(model: ModelProto) -> str | None:
    """Returns the message with which onnx's checker rejects a model."""
    return checker.whole(model, registry.default(), full=False)


@pytest.mark.skipif(not TESTS, reason="the installed onnx ships no tests of its converter")
def test_all_tests_of_onnx_are_found() -> None:
    assert len(TESTS) > 300
    names = {name for _, name in (test.values for test in TESTS)}
    assert "test_Clip_1" in names


@pytest.mark.parametrize(("case", "name"), TESTS)
def test_the_model_is_converted_or_refused(
    case: type[unittest.TestCase], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    converter = Converter(name)
    monkeypatch.setattr(onnx.version_converter, "convert_version", converter)
    unittest.TestSuite([case(name)]).run(unittest.TestResult())
    assert converter.wrong == []
    if not converter.calls:
        pytest.skip("it converts nothing")
