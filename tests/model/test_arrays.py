# SPDX-License-Identifier: Apache-2.0
"""Tensors become equal arrays with each release of onnx."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from opshift import InvalidModel, convert_version, diff
from opshift.adapter import T, dtype_of
from opshift.model.arrays import (
    as_tensor,
    dense,
    from_array,
    in_typed_field,
    is_array,
    of_integers,
    refuse_torn,
    require_fit,
    to_array,
)
from opshift.opsets.elements import ELEMENTS

NARROW = {
    T.BFLOAT16: ml_dtypes.bfloat16,
    T.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    T.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    T.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    T.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    T.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
    T.INT4: ml_dtypes.int4,
    T.UINT4: ml_dtypes.uint4,
}
PLAIN = [element for element in ELEMENTS.values() if element.numpy]
KINDS = pytest.mark.parametrize("elem_type", NARROW, ids=lambda kind: kind.name)


@KINDS
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3)], ids=str)
def test_there_and_back(elem_type, shape):
    array = np.ones(shape, np.float32).astype(NARROW[elem_type])
    tensor = from_array(array, "w")
    assert (tensor.name, tensor.data_type, tuple(tensor.dims)) == ("w", elem_type, shape)
    assert dtype_of(elem_type) == array.dtype == to_array(tensor).dtype
    np.testing.assert_array_equal(to_array(tensor), array)


@KINDS
def test_entries_of_int32_data_are_read(elem_type):
    data = {T.BFLOAT16: [0x3F80, 0x4000, 0]}.get(elem_type, [0x21, 0x03])
    count = 2 if "8" in elem_type.name else 3
    tensor = TensorProto(data_type=elem_type, dims=[count], int32_data=data)
    raw = np.array(data, "<u2" if elem_type == T.BFLOAT16 else "u1").tobytes()
    same = TensorProto(data_type=elem_type, dims=[count], raw_data=raw)
    assert to_array(tensor).tobytes() == to_array(same).tobytes()
    if helper.tensor_dtype_to_np_dtype(T.BFLOAT16) == ml_dtypes.bfloat16:  # as onnx itself, then
        assert numpy_helper.to_array(same).tobytes() == to_array(same).tobytes()


def test_numbers_become_what_the_type_can_hold():
    wide = np.array([1.5, -np.inf, np.nan])
    assert to_array(as_tensor(wide, T.BFLOAT16)).tolist()[:2] == [1.5, -np.inf]
    assert to_array(as_tensor(wide, T.FLOAT8E4M3FN)).tolist()[:2] == [1.5, -448.0]
    assert to_array(as_tensor(np.array([-8, 7]), T.INT4)).tolist() == [-8, 7]


@pytest.mark.parametrize("elem_type", [T.COMPLEX64, T.COMPLEX128], ids=lambda kind: kind.name)
def test_complex_numbers_are_pairs(elem_type, monkeypatch):
    tensor = TensorProto(data_type=elem_type, dims=[2])
    field = tensor.float_data if elem_type == T.COMPLEX64 else tensor.double_data
    field.extend([1, 2, 3, 4])
    with monkeypatch.context() as patch:
        patch.setattr("opshift.model.arrays.whole.numpy_helper", None)
        assert to_array(tensor).tolist() == [1 + 2j, 3 + 4j]


@pytest.mark.parametrize("length", [0, 1, 2])
def test_a_tensor_of_more_dimensions_than_numpy_has_is_invalid(length):
    tensor = TensorProto(name="w", data_type=1, dims=[length] * 5000, raw_data=bytes(4 * length))
    with pytest.raises(InvalidModel, match="'w' has 5000 dimensions"):
        to_array(tensor)
    given = helper.make_tensor_value_info("x", 1, [1])
    made = helper.make_tensor_value_info("y", 1, [None] * 5000)
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [given], [made])
    graph.initializer.append(tensor)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for act in (lambda: diff(model, model), lambda: convert_version(model, 6)):
        with pytest.raises(InvalidModel):
            act()


def test_a_size_that_no_file_has_is_not_written_in_digits():
    with pytest.raises(InvalidModel, match=r"holds 3 bytes, not more than any file can hold$"):
        require_fit([2] * 20000, 3, 2**20000, "bytes", "tensor 'w'")


@pytest.mark.parametrize("element", PLAIN, ids=lambda element: element.name)
def test_numbers_of_numpy_are_read_from_both_fields(element):
    array = np.array([[0, 1, 1]]).astype(element.numpy)
    raw = from_array(array, "w")
    assert (raw.name, raw.data_type, list(raw.dims)) == ("w", element.number, [1, 3])
    assert raw.raw_data == array.tobytes()
    typed = helper.make_tensor("w", element.number, [1, 3], array.reshape(-1).tolist())
    for tensor in (raw, typed):
        assert not tensor.HasField("raw_data") or tensor is raw
        assert to_array(tensor).dtype == dtype_of(element.number) == np.dtype(element.numpy)
        np.testing.assert_array_equal(to_array(tensor), array)


@pytest.mark.parametrize("elem_type", [*(element.number for element in PLAIN), *NARROW])
def test_numbers_are_read_without_the_functions_of_onnx(elem_type, monkeypatch):
    """These functions differ between releases of onnx."""
    monkeypatch.setattr("opshift.model.arrays.whole", None)
    array = np.ones(3, dtype_of(elem_type))
    np.testing.assert_array_equal(to_array(from_array(array)), array)


def test_a_tensor_without_a_name_lacks_the_field():
    assert not from_array(np.ones(2, np.float32)).HasField("name")


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.5, -2.0], ml_dtypes.bfloat16),
        np.array([1.5, -2.0], ml_dtypes.float8_e5m2),
        np.array([1, -2, 3], ml_dtypes.int4),
        np.array([1, 2, 3, 15, 0], ml_dtypes.uint4),
        np.array([[1, 2, 3], [4, 5, 6]], ml_dtypes.int4).T,
    ],
    ids=lambda array: array.dtype.name,
)
def test_elements_of_narrow_types_keep_their_order(array):
    np.testing.assert_array_equal(to_array(from_array(array)), array)


def test_two_numbers_of_4_bits_share_a_byte_the_first_in_its_low_half():
    tensor = from_array(np.array([1, -1, 7], ml_dtypes.int4))
    assert tensor.raw_data == bytes([0xF1, 0x07])
    tensor = TensorProto(data_type=T.UINT4, dims=[3], int32_data=[0xF1, 0x07])
    assert to_array(tensor).tolist() == [1, 15, 7]


def test_texts_and_complex_numbers_become_tensors():
    texts = from_array(np.array(["a", "bc"], object), "w")
    assert (texts.name, list(texts.string_data)) == ("w", [b"a", b"bc"])
    assert to_array(texts).tolist() == ["a", "bc"]
    assert dtype_of(T.STRING) == np.dtype(object)
    numbers = np.array([1 + 2j, 3 - 4j], np.complex64)
    assert to_array(from_array(numbers)).tolist() == numbers.tolist()
    assert dtype_of(T.COMPLEX64) == np.complex64


def test_only_arrays_are_arrays(monkeypatch):
    assert is_array(np.ones(1))
    assert not is_array([1])
    array = np.ones(1)
    monkeypatch.delitem(sys.modules, "numpy")
    assert not is_array(array)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"data_type": 1, "dims": [1] * 65, "raw_data": bytes(4)}, "has 65 dimensions"),
        ({"data_type": 99, "raw_data": bytes(4)}, "has the element type 99, which is unknown"),
        (
            {"data_type": 1, "segment": TensorProto.Segment(begin=0), "float_data": [1]},
            "is one segment",
        ),
        (
            {"data_type": 8, "dims": [2], "string_data": [b"a"]},
            r"of shape \[2\] holds 1 strings, not 2",
        ),
        (
            {"data_type": 1, "dims": [2], "raw_data": bytes(4)},
            r"of shape \[2\] holds 4 bytes, not 8",
        ),
        (
            {"data_type": 1, "dims": [2], "float_data": [1]},
            r"of shape \[2\] holds 1 numbers, not 2",
        ),
        (
            {"data_type": 3, "dims": [1], "int32_data": [1, 2]},
            r"of shape \[.*\] holds 2 numbers, not 1",
        ),
        (
            {"data_type": 22, "dims": [2], "raw_data": bytes(2)},
            r"of shape \[.*\] holds 2 bytes, not 1",
        ),
        (
            {"data_type": 22, "dims": [5], "int32_data": [1, 2]},
            r"of shape \[.*\] holds 2 numbers, not 3",
        ),
        (
            {"data_type": 8, "dims": [1], "string_data": [b"a", b"b"]},
            r"of shape \[.*\] holds 2 strings, not 1",
        ),
        (
            {"data_type": 1, "dims": [-1, -1], "float_data": [1]},
            r"of shape \[.*\] holds 1 numbers, not 1",
        ),
        ({"data_type": 1, "dims": [-1, 0]}, r"of shape \[.*\] holds 0 numbers, not 0"),
    ],
)
def test_a_tensor_whose_fields_disagree_is_invalid(fields, problem):
    with pytest.raises(InvalidModel, match=f"^tensor 'w' {problem}"):
        refuse_torn(TensorProto(name="w", **fields))
    with pytest.raises(InvalidModel, match=f"^the bias {problem}"):
        refuse_torn(TensorProto(name="w", **fields), "the bias")


@pytest.mark.parametrize(
    "fields",
    [
        {"data_type": 1, "dims": [1] * 64, "raw_data": bytes(4)},
        {"data_type": 8, "dims": [2], "string_data": [b"a", b"b"]},
        {"data_type": 22, "dims": [3], "raw_data": bytes(2)},
        {
            "data_type": 22,
            "dims": [3],
            "int32_data": [1, 2, 3],
        },  # of onnx's parser, one for each number
        {"data_type": 1, "dims": [0]},
        {"data_type": 1, "float_data": [1]},
    ],
)
def test_a_tensor_whose_fields_agree_is_valid(fields):
    refuse_torn(TensorProto(name="w", **fields))


@pytest.mark.parametrize(
    ("dims", "needed", "words"),
    [
        ([2] * 64, 2**63 - 1, rf"of shape \[2, .*\] holds 3 bytes, not {2**63 - 1}$"),
        ([2] * 65, 2**63, "of rank 65 holds 3 bytes, not more than any file can hold$"),
        ([2], -(2**63), "not more than any file can hold$"),
    ],
)
def test_sizes_are_written_in_digits_if_files_can_have_them(dims, needed, words):
    with pytest.raises(InvalidModel, match=words):
        require_fit(dims, 3, needed, "bytes", "w")


def test_integers_become_int64_tensors_without_numpy():
    limits = [-(2**63), 2**63 - 1]
    for value in (7, *limits, [], [1, 2, 3], (4, 5), limits):
        tensor = of_integers(value)
        assert tensor.data_type == T.INT64
        assert to_array(tensor).tolist() == (list(value) if isinstance(value, tuple) else value)
    for value in (1.0, True, "1", [1, 2.0], [2**63], -(2**63) - 1, None):
        assert of_integers(value) is None


def test_numbers_move_to_the_field_of_their_type():
    for array in (np.array([[1.5, 2.5]], np.float32), np.array([[1, 2]], np.int64)):
        tensor = from_array(array, "w")
        typed = in_typed_field(tensor)
        assert (typed.name, list(typed.dims), typed.HasField("raw_data")) == ("w", [1, 2], False)
        field = typed.float_data if array.dtype == np.float32 else typed.int64_data
        assert list(field) == array.reshape(-1).tolist()
        assert in_typed_field(typed) is typed
    kept = from_array(np.ones(1, np.int32))
    assert in_typed_field(kept) is kept


def test_a_sparse_tensor_is_written_out_by_linear_indices_or_by_coordinates():
    values = np.array([5, 6], np.int32)
    full = [[0, 5, 0], [0, 0, 6]]
    for indices in ([1, 5], [[0, 1], [1, 2]]):
        array = dense(values, np.array(indices), [2, 3])
        assert (array.tolist(), array.dtype) == (full, np.int32)
    for dims in ([2**30], [-1, 2], [2**31 - 1, 2]):
        with pytest.raises(InvalidModel, match="too large to be written out"):
            dense(values, np.array([1, 5]), dims)
    assert dense(values[:0], np.zeros(0, np.int64), [0, 2**40]).shape == (0, 2**40)
