# SPDX-License-Identifier: Apache-2.0
"""Models that runtimes load but onnx's checker rejects are repaired, with a note in the report."""

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from opshift import InvalidModel, convert_file, convert_version
from opshift.convert.cheapest_strategy import convert
from opshift.convert.request import Request
from opshift.model import weights
from opshift.model.arrays import in_typed_field
from opshift.verify import oracle
from text_models import model, ops

PLAIN = "(float[2,3] x) => (float[2,3] y) { h = Relu(x) y = Softmax(h) }"


def converted(m: ModelProto, target: int = 13) -> tuple[ModelProto, str]:
    skeleton, large_tensors, told = convert(lambda: weights.carve_model(m), Request(target))
    weights.fill(skeleton, large_tensors)
    onnx.checker.check_model(skeleton, full_check=True)
    return skeleton, "\n".join(told.notes)


def test_an_output_without_a_shape_gets_the_inferred_one():
    m = model(PLAIN, opset=12)
    m.graph.output[0].type.tensor_type.ClearField("shape")
    after, told = converted(m)
    assert [d.dim_value for d in after.graph.output[0].type.tensor_type.shape.dim] == [2, 3]
    assert "type or shape of 'y', which had none" in told


def test_an_output_without_a_type_gets_the_inferred_one():
    m = model(PLAIN, opset=12)
    m.graph.output[0].ClearField("type")
    after, told = converted(m)
    assert after.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT
    assert "type or shape of 'y', which had none" in told


def test_a_graph_without_a_name_gets_one():
    m = model(PLAIN, opset=12)
    m.graph.name = ""
    after, told = converted(m)
    assert after.graph.name == "graph"
    assert "without a name got the name 'graph'" in told


@pytest.mark.parametrize("imported", ["", "ai.onnx"])
def test_the_default_domain_may_be_spelled_out(imported):
    m = model(PLAIN, opset=12)
    m.opset_import[0].domain = imported
    for node in m.graph.node:
        node.domain = "ai.onnx"
    after, told = converted(m)
    assert ops(after) == ops(convert_version(model(PLAIN, opset=12), 13))
    assert "of 2 nodes was replaced by ''" in told
    assert [entry.domain for entry in after.opset_import] == [""]


@pytest.mark.parametrize("ir", [1, 2])
def test_the_oldest_ir_versions_are_raised(ir):
    m = parser.parse_model(
        '<ir_version: 3, opset_import: ["": 1]> g (float[2] x) => (float[2] y) { y = Elu<alpha=1.0>(x) }'
    )
    m.ir_version = ir
    m.ClearField("opset_import")
    if ir == 1:
        m.graph.node[0].attribute[0].ClearField("type")
    after, told = converted(m)
    assert after.ir_version >= 3
    assert after.opset_import[0].version == 13
    assert f"raised IR {ir} to 3" in told


def test_the_import_of_an_operator_that_means_one_thing_is_added():
    m = model("(float[2] x) => (float[2] y) { y = Relu(x) }", opset=12, ir=7)
    m.ClearField("opset_import")
    after, told = converted(m)
    assert after.opset_import[0].version == 13
    assert "opset 14 was added, because every opset of IR 7 defines the operators" in told


def test_a_later_ir_version_without_imports_stays_invalid_if_the_opsets_differ():
    m = model("(float[2,3] x) => (float[2,3] y) { y = Softmax<axis=1>(x) }", opset=12, ir=7)
    m.ClearField("opset_import")
    with pytest.raises(InvalidModel, match="imports no operator set"):
        convert_version(m, 13)


def test_equal_initializers_of_one_name_become_one():
    m = model("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }", opset=12)
    m.graph.initializer.append(m.graph.initializer[0])
    after, told = converted(m)
    assert len(after.graph.initializer) == 1
    assert "initializer 'w' occurred twice" in told


def large(*ends, typed=False):
    """Returns a model with large initializers of one name, each with another last number."""
    m = model("(float[N] x) => (float[N] y) { y = Add(x, w) }", opset=12)
    for end in ends:
        values = np.arange(2**19, dtype=np.float32)
        values[-1] = end
        raw = numpy_helper.from_array(values, "w")
        m.graph.initializer.append(in_typed_field(raw) if typed else raw)
    return m


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("in_a_file", [False, True])
def test_equal_large_initializers_of_one_name_become_one(in_a_file, typed, tmp_path):
    m = large(np.nan, np.nan, typed=typed)
    if in_a_file:
        (tmp_path / "m.onnx").write_bytes(m.SerializeToString())
        convert_file(tmp_path / "m.onnx", tmp_path / "out.onnx", 13)
        after = onnx.load(tmp_path / "out.onnx")
    else:
        after, told = converted(m)
        assert "initializer 'w' occurred twice" in told
    (kept,) = after.graph.initializer
    assert kept.SerializeToString() == m.graph.initializer[0].SerializeToString()


def test_other_initializers_of_one_name_are_invalid(tmp_path):
    m = model("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }", opset=12)
    m.graph.initializer.append(helper.make_tensor("w", 1, [2], [3, 4]))
    for broken in (m, large(0, 1), large(0, 1, 0), large(0, 1, typed=True)):
        with pytest.raises(InvalidModel, match="'w' in graph 'g' occurs twice"):
            convert_version(broken, 13)
        (tmp_path / "m.onnx").write_bytes(broken.SerializeToString())
        with pytest.raises(InvalidModel, match="'w' in graph 'g' occurs twice"):
            convert_file(tmp_path / "m.onnx", tmp_path / "out.onnx", 13)


def test_a_valid_model_is_not_repaired():
    assert converted(model(PLAIN, opset=12))[1] == ""


@pytest.mark.parametrize("field", ["shape", "type"])
def test_an_output_whose_rank_nobody_knows_stays_as_it_came(field):
    text = "(float[n] x, int64[k] s) => (float y) { h = Relu(x) y = Reshape(h, s) }"
    m = model(text, opset=13)
    if field == "type":
        m.graph.output[0].ClearField("type")
    else:
        m.graph.output[0].type.tensor_type.ClearField("shape")
    skeleton, _, told = convert(lambda: weights.carve_model(m), Request(9))
    assert ops(skeleton) == "Relu Reshape"
    assert not skeleton.graph.output[0].type.tensor_type.HasField("shape")
    assert any("'y' is missing" in note for note in told.notes)


OTHER_VERSIONS = {
    "Softmax flattens below 13": (18, 12, "y = Softmax<axis=1>(x)"),
    "axes are attributes below 13": (18, 11, "y = ReduceSum<axes=[1]>(x)"),
    "Upsample ends with 9": (
        18,
        9,
        "s = Constant<value = float[3] {1.0, 1.0, 2.0}>() y = Upsample(x, s)",
    ),
    "a later function": (13, 18, "a = Constant<value_ints=[1]>() y = ReduceMax(x, a)"),
}


@pytest.mark.parametrize("target", [9, 12, 14, 19])
@pytest.mark.parametrize("what", OTHER_VERSIONS)
def test_functions_may_import_other_versions_than_the_model(what, target):
    version, own, body = OTHER_VERSIONS[what]
    m = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {version}, "f": 1]>'
        " g (float[2,3,4] x) => (float[a,b,c] y) { z = Softmax(x) y = f.F(z) }"
        f' <domain: "f", opset_import: ["": {own}]> F (x) => (y) {{ {body} }}'
    )
    after = convert_version(m, target)
    onnx.checker.check_model(after, full_check=True)
    inputs = oracle.make_inputs(m)
    assert oracle.compare(oracle.evaluate(m, inputs), oracle.evaluate(after, inputs)) is None


def test_what_is_wrong_in_such_a_function_is_still_found():
    m = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18, "f": 1]> g (float[2] x) => (float[2] y) { y = f.F(x) }'
        ' <domain: "f", opset_import: ["": 12]> F (x) => (y) { y = Softmax<axes=1>(x) }'
    )
    with pytest.raises(InvalidModel, match="axes"):
        convert_version(m, 13)


def test_a_function_that_alone_changes_its_version_changes_the_model(tmp_path):
    """The model already has the version, but one of its functions does not."""
    text = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
        g (float[2,3] x) => (float[2] y) { y = own.F(x) }
        <opset_import: ["" : 17], domain: "own">
        F (x) => (y) { y = ReduceMax<axes = [1], keepdims = 0>(x) }"""
    before = parser.parse_model(text)
    onnx.save(before, tmp_path / "m.onnx")
    report = convert_file(tmp_path / "m.onnx", tmp_path / "m.onnx", 18, in_place=True)
    assert report.changed
    written = onnx.load(tmp_path / "m.onnx")
    assert written.functions[0].opset_import[0].version == 18
    assert not convert_file(tmp_path / "m.onnx", tmp_path / "o.onnx", 18).changed
    convert_version(before, 18, inplace=True)
    assert before == written
