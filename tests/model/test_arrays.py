# SPDX-License-Identifier: Apache-2.0
"""Tensors are the same arrays whatever release of onnx is installed."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from opshift import InvalidModel, convert_version, diff
from opshift.adapter import T, dtype_of
from opshift.model.arrays import as_tensor, from_array, require_fit, to_array

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
def test_complex_numbers_are_pairs(elem_type):
    tensor = TensorProto(data_type=elem_type, dims=[2])
    field = tensor.float_data if elem_type == T.COMPLEX64 else tensor.double_data
    field.extend([1, 2, 3, 4])
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
