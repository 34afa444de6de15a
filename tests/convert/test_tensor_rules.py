# SPDX-License-Identifier: Apache-2.0
"""The rules about the payloads of tensors that onnx's checker leaves out."""

from __future__ import annotations

import hashlib

import pytest
from checked import assert_finds, checked
from onnx import ModelProto, TensorProto
from opshift import check
from opshift.convert.legal import model_rules, tensor_rules
from opshift.convert.legal.findings import Checked
from text_models import model


def with_tensor(**fields) -> ModelProto:
    proto = model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13)
    proto.graph.initializer.add(name="w", **fields)
    return proto


def subject(**fields) -> Checked:
    return checked(with_tensor(**fields))


@pytest.mark.parametrize(
    ("fields", "pattern"),
    [
        ({"data_type": TensorProto.FLOAT, "dims": [1], "float_data": [1, 2]}, "2 numbers, not 1; correct"),
        ({"data_type": TensorProto.FLOAT, "dims": [2], "float_data": [1]}, "1 numbers, not 2"),
        ({"data_type": TensorProto.FLOAT, "dims": [2], "raw_data": b"1234" * 3}, "12 bytes, not 8"),
        ({"data_type": TensorProto.FLOAT, "dims": [2000], "raw_data": b"1234"}, "4 bytes, not 8000"),
        ({"data_type": TensorProto.FLOAT, "dims": [2000], "raw_data": b"1234" * 2001}, "8004 bytes, not 8000"),
        ({"data_type": TensorProto.INT4, "dims": [3], "int32_data": [1]}, "1 numbers, not 2"),
        ({"data_type": TensorProto.INT4, "dims": [3], "raw_data": b"123"}, "3 bytes, not 2"),
        ({"data_type": TensorProto.COMPLEX64, "dims": [1], "float_data": [1]}, "1 numbers, not 2"),
        ({"data_type": TensorProto.STRING, "dims": [1], "string_data": [b"a", b"b"]}, "2 strings, not 1"),
        ({"data_type": TensorProto.STRING, "dims": [0], "string_data": [b"a"]}, "1 strings, not 0"),
    ],
)  # fmt: skip
def test_a_tensor_has_as_many_elements_as_its_shape(fields, pattern):
    assert_finds(tensor_rules.payloads, subject(**fields), pattern)


@pytest.mark.parametrize(
    "fields",
    [
        {"data_type": TensorProto.FLOAT, "float_data": [1]},
        {"data_type": TensorProto.FLOAT, "dims": [0, 5]},
        {"data_type": TensorProto.INT4, "dims": [3], "raw_data": b"12"},
        {"data_type": TensorProto.STRING, "dims": [1], "string_data": [b"a"]},
        {"data_type": TensorProto.FLOAT, "dims": [2000], "raw_data": b"1234" * 2000},
        {"data_type": TensorProto.FLOAT, "dims": [1] * 65, "float_data": [1]},
        {"data_type": 99, "dims": [1], "float_data": [1, 2]},
        {"data_type": TensorProto.STRING, "dims": [1], "raw_data": b"12"},
        {"data_type": TensorProto.FLOAT, "dims": [1], "int64_data": [1]},  # the checker says more
        {"data_type": TensorProto.FLOAT, "dims": [1], "float_data": [1], "raw_data": b"1234"},
    ],
)
def test_other_tensors_are_left_to_the_checker(fields):
    assert_finds(tensor_rules.payloads, subject(**fields))


def test_a_segment_is_no_tensor():
    proto = with_tensor(data_type=TensorProto.FLOAT, dims=[1], float_data=[1])
    proto.graph.initializer[0].segment.end = 1
    text = "^tensor 'w' is one segment of a larger tensor; store the whole tensor$"
    assert_finds(tensor_rules.payloads, checked(proto), text)
    assert [finding.rule for finding in check(proto).found] == ["TENSOR_DATA"]


@pytest.mark.parametrize(
    ("fields", "pattern"),
    [
        ({"data_type": TensorProto.BOOL, "raw_data": b"\0\1\2"}, "bool has the entry 2, .* 0 and 1"),
        ({"data_type": TensorProto.BOOL, "int32_data": [1, -1]}, "the entry -1"),
        ({"data_type": TensorProto.INT8, "int32_data": [-128, 127, 128]}, "128, .* -128 and 127"),
        ({"data_type": TensorProto.UINT16, "int32_data": [65535, -1]}, "-1, .* 0 and 65535"),
        ({"data_type": TensorProto.UINT32, "uint64_data": [2**32]}, "4294967296"),
        ({"data_type": TensorProto.FLOAT16, "int32_data": [65536]}, "65536, .* 0 and 65535"),
        ({"data_type": TensorProto.FLOAT8E5M2, "int32_data": [256]}, "256, .* 0 and 255"),
        ({"data_type": TensorProto.UINT4, "int32_data": [255, -1]}, "-1, .* 0 and 255"),
        ({"data_type": TensorProto.INT4, "int32_data": [-128, 256]}, "256, .* -128 and 255"),
        ({"data_type": TensorProto.STRING, "string_data": [b"a", b"\xff"]}, r"\\xff', which is not UTF-8; correct it"),
        ({"data_type": TensorProto.STRING, "string_data": [b"a\0"]}, "ends with a zero byte"),
        ({"data_type": TensorProto.STRING, "string_data": [b"\xef\xbb\xbfa"]}, "begins with a byte order mark"),
    ],
)  # fmt: skip
def test_an_entry_is_one_of_the_element_type(fields, pattern):
    assert_finds(tensor_rules.values, subject(**fields), pattern)


@pytest.mark.parametrize(
    "fields",
    [
        {"data_type": TensorProto.BOOL, "raw_data": b"\0\1"},
        {"data_type": TensorProto.INT8, "raw_data": b"\xff"},
        {"data_type": TensorProto.INT32, "int32_data": [2**31 - 1]},
        {"data_type": TensorProto.INT64, "int64_data": [-(2**63)]},
        {"data_type": TensorProto.FLOAT, "float_data": [-3.0]},
        {"data_type": TensorProto.STRING, "string_data": ["é".encode()]},
        {"data_type": 99, "int32_data": [3]},
    ],
)
def test_entries_of_the_element_type_are_legal(fields):
    assert_finds(tensor_rules.values, subject(**fields))


@pytest.mark.parametrize(
    ("entries", "pattern"),
    [
        ({"offset": "0"}, "'' is not inside the model's folder"),
        ({"location": "../w.bin"}, r"'\.\./w.bin' is not inside"),
        ({"location": "w.bin"}, None),
    ],
)
def test_a_model_in_memory_names_files_in_its_folder(entries, pattern):
    proto = with_tensor(data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        proto.graph.initializer[0].external_data.add(key=key, value=value)
    assert_finds(model_rules.data_files, checked(proto), *[pattern] * (pattern is not None))


def test_external_data_is_not_also_in_the_model():
    proto = with_tensor(
        data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL, float_data=[1]
    )
    proto.graph.initializer[0].external_data.add(key="location", value="w.bin")
    assert_finds(model_rules.data_files, checked(proto), "in another file and in float_data")


@pytest.mark.parametrize(("digest", "is_right"), [("SHA1", True), ("0" * 40, False), ("", True)])
def test_a_data_file_has_the_digest_that_the_model_states(tmp_path, digest, is_right):
    (tmp_path / "w.bin").write_bytes(b"1234")
    right = hashlib.sha1(b"1234", usedforsecurity=False).hexdigest()
    proto = with_tensor(data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    proto.graph.initializer[0].external_data.add(key="location", value="w.bin")
    if digest:
        value = digest.replace("SHA1", right.upper())
        proto.graph.initializer[0].external_data.add(key="checksum", value=value)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    found = check(tmp_path / "m.onnx").found
    assert [finding.rule for finding in found] == ([] if is_right else ["EXTERNAL_DATA"])
    assert is_right or f"has the SHA1 digest {right}, not 000" in found[0].text
