# SPDX-License-Identifier: Apache-2.0
"""What the checks by classes let pass, onnx's full check lets pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from opshift import InvalidModel, convert_version
from opshift.author import registry
from opshift.convert import api
from opshift.convert.classes import memo as memos
from opshift.convert.classes.memo import memo
from opshift.convert.classes.proof import proves
from opshift.convert.legal import checker
from text_models import model

from tools.bench.workloads import transformer
from tools.conformance import prove
from tools.fuzz import seeds

NODES, FIRST, MUTANTS = 700, 1, 400


@pytest.fixture(scope="module")
def sound() -> ModelProto:
    made = transformer(18, NODES)
    made.graph.value_info.extend(onnx.shape_inference.infer_shapes(made).graph.value_info)
    return made


def onnx_accepts(made: ModelProto) -> bool:
    try:
        onnx.checker.check_model(made, full_check=True)
    except Exception:
        return False
    return True


def some(made: ModelProto, op: str) -> NodeProto:
    return next(node for node in made.graph.node if node.op_type == op)


def undefined_input(made: ModelProto) -> None:
    some(made, "MatMul").input[0] = "nobody"


def two_writers(made: ModelProto) -> None:
    made.graph.node[-1].output[0] = made.graph.node[3].output[0]


def writes_an_input(made: ModelProto) -> None:
    made.graph.node[5].output[0] = made.graph.input[0].name


def unknown_operator(made: ModelProto) -> None:
    some(made, "MatMul").op_type = "MatMule"


def foreign_operator(made: ModelProto) -> None:
    some(made, "MatMul").domain = "com.acme"


def unknown_attribute(made: ModelProto) -> None:
    some(made, "MatMul").attribute.append(helper.make_attribute("axis", 1))


def wrong_attribute(made: ModelProto) -> None:
    some(made, "Transpose").attribute[0].CopyFrom(helper.make_attribute("perm", [0, 0, 1, 2]))


def wrong_axes(made: ModelProto) -> None:
    made.graph.initializer.append(numpy_helper.from_array(np.array([9], np.int64), "nine"))
    some(made, "ReduceMean").input[1] = "nine"


def too_many_inputs(made: ModelProto) -> None:
    some(made, "MatMul").input.append(made.graph.input[0].name)


def a_needed_input_left_out(made: ModelProto) -> None:
    some(made, "MatMul").input[1] = ""


def wrong_order(made: ModelProto) -> None:
    nodes = list(made.graph.node)
    del made.graph.node[:]
    made.graph.node.extend(reversed(nodes))


def wrong_declared_type(made: ModelProto) -> None:
    made.graph.value_info[-1].type.tensor_type.elem_type = TensorProto.INT8


def wrong_declared_rank(made: ModelProto) -> None:
    made.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 3


def wrong_declared_size(made: ModelProto) -> None:
    tensor = next(i for i in made.graph.value_info if i.type.tensor_type.shape.dim)
    tensor.type.tensor_type.shape.dim[0].dim_value = 12345


def short_initializer(made: ModelProto) -> None:
    made.graph.initializer[0].raw_data = made.graph.initializer[0].raw_data[:-1]


def repeated_initializer(made: ModelProto) -> None:
    made.graph.initializer.append(made.graph.initializer[0])


def initializer_against_its_input(made: ModelProto) -> None:
    first = made.graph.initializer[0]
    made.graph.input.append(helper.make_tensor_value_info(first.name, TensorProto.BOOL, [1]))


def output_that_nobody_writes(made: ModelProto) -> None:
    made.graph.output[0].name = "nobody"


def output_without_a_type(made: ModelProto) -> None:
    made.graph.output[0].ClearField("type")


def input_without_a_shape(made: ModelProto) -> None:
    made.graph.input[0].type.tensor_type.ClearField("shape")


def repeated_metadata(made: ModelProto) -> None:
    for _ in range(2):
        made.metadata_props.add(key="a", value="b")


def graph_without_a_name(made: ModelProto) -> None:
    made.graph.name = ""


def ir_from_the_future(made: ModelProto) -> None:
    made.ir_version = 1000


def ir_without_plain_initializers(made: ModelProto) -> None:
    made.ir_version = 3


def no_import(made: ModelProto) -> None:
    made.opset_import[0].domain = "ai.onnx.ml"


DAMAGES: list[Callable[[ModelProto], None]] = [
    undefined_input, two_writers, writes_an_input, unknown_operator, foreign_operator,
    unknown_attribute, wrong_attribute, wrong_axes, too_many_inputs, a_needed_input_left_out,
    wrong_order, wrong_declared_type, wrong_declared_rank, wrong_declared_size,
    short_initializer, repeated_initializer, initializer_against_its_input,
    output_that_nobody_writes, output_without_a_type, input_without_a_shape, repeated_metadata,
    graph_without_a_name, ir_from_the_future, ir_without_plain_initializers, no_import,
]  # fmt: skip


def test_a_sound_model_is_proved(sound):
    assert onnx_accepts(sound)
    assert proves(sound.SerializeToString(), registry.default())


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_model_is_not_proved(damage, sound):
    made = ModelProto()
    made.CopyFrom(sound)
    damage(made)
    if onnx.defs.onnx_opset_version() < 28 and onnx_accepts(made):
        pytest.skip("the installed onnx accepts this damage")
    assert not onnx_accepts(made)
    assert not proves(made.SerializeToString(), registry.default(), at_any_cost=True)


def test_a_damage_is_seen_behind_a_class_that_is_known(sound):
    """The memo of the sound model answers for every node but the damaged one."""
    assert proves(sound.SerializeToString(), registry.default())
    for damage in (wrong_axes, unknown_attribute, two_writers):
        made = ModelProto()
        made.CopyFrom(sound)
        damage(made)
        assert not proves(made.SerializeToString(), registry.default(), at_any_cost=True)
    assert proves(sound.SerializeToString(), registry.default())


def test_a_damage_of_an_operator_without_a_schema_is_seen_each_time():
    """LayerNormalization is older in onnxruntime than in onnx, which has no schema for it at 13."""
    made = model(
        "(float[2,3] x, float[3] s) => (float[2,3] y) { y = LayerNormalization<epsilon=0.1>(x, s) }",
        13,
    )
    assert convert_version(made, 13).graph.node[0].op_type == "LayerNormalization"
    made.graph.node[0].attribute[0].type = AttributeProto.TENSORS
    for _ in range(3):
        with pytest.raises(InvalidModel, match="mismatch in attribute epsilon"):
            convert_version(made, 13)


def test_what_is_proved_does_not_depend_on_what_is_remembered(sound):
    data = sound.SerializeToString()
    known = memo((("", 18),), sound.ir_version, registry.default())
    known.renew()
    assert proves(data, registry.default())
    first = outputs(known)
    assert proves(data, registry.default())
    assert outputs(known) == first
    known.renew()
    assert proves(data, registry.default())
    assert outputs(known) == first


def outputs(known):
    """The facets of the outputs of each class."""
    return {row: one.outputs for row, one in known.classes.items()}


def test_the_memo_is_bounded(sound, monkeypatch):
    monkeypatch.setattr(memos, "MOST_CLASSES", 3)
    known = memo((("", 18),), sound.ir_version, registry.default())
    assert proves(sound.SerializeToString(), registry.default())
    held = len(known.classes)
    assert proves(sound.SerializeToString(), registry.default())
    assert len(known.classes) == held


def test_a_small_model_and_one_of_many_classes_are_left_to_onnx(sound):
    assert not proves(transformer(18, 40).SerializeToString(), registry.default())
    made = ModelProto()
    made.CopyFrom(sound)
    for i, node in enumerate(made.graph.node):
        if node.op_type in ("Transpose", "Gather"):
            node.doc_string = "no part of a class"
            node.attribute[0].doc_string = f"a part of it: {i}"
    known = memo((("", 18),), sound.ir_version, registry.default())
    known.renew()
    assert not proves(made.SerializeToString(), registry.default())


def test_a_large_result_is_checked_by_classes_and_onnx_words_the_objection(sound, monkeypatch):
    asked = []
    whole = checker.whole
    monkeypatch.setattr(checker, "whole", lambda *a, **k: asked.append(k["full"]) or whole(*a, **k))
    with api.node_by_node():
        convert_version(transformer(13, NODES), 18)
    assert asked == [False]  # the model that came; the result needed no second call


@pytest.mark.skipif(
    onnx.defs.onnx_opset_version() < 28, reason="this onnx ends the process on many damaged models"
)
def test_a_mutant_that_onnx_rejects_is_not_proved(tmp_path):
    """A sample; `python -m tools.conformance prove` runs more, on real models.

    A child judges, because a damaged model may keep onnx busy forever.
    """
    paths = []
    for number, data in enumerate(seeds.pool(("adapters",))):
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(data)
        paths.append(str(path))
    counts, wrong = prove.batch(paths, FIRST, FIRST + MUTANTS, seconds=20)
    assert not wrong
    assert counts["proved"]
    assert counts["rejected"]
    assert counts.total() == MUTANTS
