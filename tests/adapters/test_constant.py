# SPDX-License-Identifier: Apache-2.0
"""Sparse constants, which the text format of the examples cannot express."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from opshift import convert_version
from opshift.verify import oracle


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]], ids=["linear", "coordinates"])
def test_a_sparse_constant_is_written_out_below_11(indices):
    values = numpy_helper.from_array(np.array([2, 3], dtype=np.float32), "v")
    places = numpy_helper.from_array(np.array(indices, dtype=np.int64), "i")
    sparse = helper.make_sparse_tensor(values, places, [2, 3])
    node = helper.make_node("Constant", [], ["y"], sparse_value=sparse)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([node], "g", [], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    onnx.checker.check_model(model)
    (result,) = oracle.evaluate(convert_version(model, 10), {})
    assert result.tolist() == [[0, 2, 0], [0, 0, 3]]
