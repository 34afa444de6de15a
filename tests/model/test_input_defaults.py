# SPDX-License-Identifier: Apache-2.0
"""An initializer that is the default of an input must have the type of the input."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import GraphProto, TypeProto, helper, numpy_helper
from opshift.model.input_defaults import unfit

FLOAT, INT64 = 1, 7


def graph(declared: TypeProto, values: np.ndarray, sparse_shape: list[int] | None) -> GraphProto:
    tensor = numpy_helper.from_array(values, "x")
    other = numpy_helper.from_array(values, "weight")
    inputs = [helper.make_value_info("x", declared), helper.make_value_info("y", declared)]
    result = helper.make_graph([], "g", inputs, [], [] if sparse_shape else [tensor, other])
    if sparse_shape:
        indices = numpy_helper.from_array(np.arange(len(values)))
        result.sparse_initializer.append(helper.make_sparse_tensor(tensor, indices, sparse_shape))
        result.sparse_initializer.append(helper.make_sparse_tensor(other, indices, sparse_shape))
    return result


@pytest.mark.parametrize("sparse_shape", [None, [2]])
@pytest.mark.parametrize(
    ("elem_type", "shape", "fits"),
    [
        (FLOAT, [2], True),
        (FLOAT, ["n"], True),
        (FLOAT, None, True),
        (0, [3], True),
        (FLOAT, [3], False),
        (FLOAT, [1, 2], False),
        (FLOAT, [], False),
        (INT64, [2], False),
    ],
)
def test_a_default_has_the_type_of_its_input(elem_type, shape, fits, sparse_shape):
    declared = helper.make_tensor_type_proto(elem_type, shape)
    messages = list(unfit(graph(declared, np.ones(2, np.float32), sparse_shape)))
    assert len(messages) == (not fits)
    for message in messages:
        assert message.startswith("input 'x' of graph 'g' is ")
        assert message.endswith(", and its initializer is tensor(float)[2]")


def test_a_graph_without_inputs_has_no_defaults():
    assert not list(unfit(helper.make_graph([], "g", [], [])))
