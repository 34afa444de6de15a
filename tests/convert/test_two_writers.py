# SPDX-License-Identifier: Apache-2.0
"""Two definitions of one name are reported for all kinds of definitions and payloads."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper
from opshift import InvalidModel, convert_version

SIZES = {"small": 2, "carved": 5000}  # elements
DEFINERS = ("input", "initializer", "Constant", "node")


def defined_by(definers: tuple[str, str], count: int) -> ModelProto:
    """Returns a model in which each of `definers` defines the name `v`, in this order."""
    graph = onnx.GraphProto(name="g")
    graph.input.append(helper.make_tensor_value_info("x", 1, [count]))
    graph.output.append(helper.make_tensor_value_info("y", 1, [count]))
    for number, one in enumerate(definers):  # equal initializers would be one that is repaired
        held = numpy_helper.from_array(np.full(count, number, np.float32), "v")
        if one == "input":
            graph.input.append(helper.make_tensor_value_info("v", 1, [count]))
        elif one == "initializer":
            graph.initializer.append(held)
        elif one == "Constant":
            graph.node.append(helper.make_node("Constant", [], ["v"], value=held))
        else:
            graph.node.append(helper.make_node("Neg", ["x"], ["v"]))
    graph.node.append(helper.make_node("Add", ["x", "v"], ["y"]))
    imports = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def is_legal(model: ModelProto) -> bool:
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return False
    return True


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("definers", [*itertools.product(DEFINERS, repeat=2)], ids="-".join)
def test_a_name_is_defined_once(definers: tuple[str, str], size: str) -> None:
    model = defined_by(definers, SIZES[size])
    if is_legal(model):
        assert set(definers) == {"input", "initializer"}
        onnx.checker.check_model(convert_version(model, 18))
        return
    with pytest.raises(InvalidModel, match="'v'"):
        convert_version(model, 18)
