# SPDX-License-Identifier: Apache-2.0
"""Parts of a model other than nodes that name values: training, annotations, shardings, types."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper

FLOAT = TensorProto.FLOAT
HAS_DEVICES = hasattr(NodeProto(), "device_configurations")


@st.composite
def with_references(draw: Any, models: Any) -> ModelProto:
    """A random model in which training, annotations and shardings refer to values by name."""
    model: ModelProto = draw(models)
    model.ir_version = max(model.ir_version, 11 if HAS_DEVICES else 7)
    graph = model.graph
    weights = [t.name for t in graph.initializer]
    values = [name for node in graph.node for name in node.output if name]
    if weights:
        _train(draw, model, [t for t in graph.initializer if t.data_type == FLOAT], values)
    for name in _some(draw, [*weights, *values]):
        note = graph.quantization_annotation.add(tensor_name=name)
        for key, weight in zip(("SCALE_TENSOR", "MAX"), _some(draw, weights), strict=False):
            note.quant_parameter_tensor_names.add(key=key, value=weight)
    if HAS_DEVICES:
        model.configuration.add(name="two", num_devices=2)
        for node in graph.node:
            for name in dict.fromkeys(_some(draw, [n for n in (*node.input, *node.output) if n])):
                if not node.device_configurations:
                    node.device_configurations.add(configuration_id="two")
                node.device_configurations[0].sharding_spec.add(tensor_name=name, device=[0, 1])
    return model


def _train(draw: Any, model: ModelProto, weights: list[TensorProto], values: list[str]) -> None:
    training = model.training_info.add()
    training.algorithm.name, training.initialization.name = "step", "first"
    for name in _some(draw, values):
        training.algorithm.node.add(op_type="Identity", input=[name], output=[f"seen_{name}"])
        training.algorithm.output.add(name=f"seen_{name}")
    for weight in weights:
        if draw(st.booleans()):
            shape = list(weight.dims)
            trained = helper.make_tensor_value_info(f"trained_{weight.name}", FLOAT, shape)
            training.algorithm.node.add(op_type="Neg", input=[weight.name], output=[trained.name])
            training.algorithm.output.append(trained)
            training.update_binding.add(key=weight.name, value=trained.name)


def _some(draw: Any, names: list[str]) -> list[str]:
    return draw(st.lists(st.sampled_from(names), max_size=3, unique=True)) if names else []
