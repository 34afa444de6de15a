# SPDX-License-Identifier: Apache-2.0
"""The IR version as a target: rewrites, content that is dropped on request, and refusals."""

from __future__ import annotations

import os

import numpy as np
import onnx
import onnx.parser
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession
from opshift import (
    BadTarget,
    InvalidModel,
    Refused,
    check,
    convert_file,
    convert_version,
    plan,
)
from opshift.cli.entry import main
from opshift.convert.api import convert_with_report
from opshift.look.accepts import accepts, survey
from opshift.verify import oracle
from text_models import model, ops

PLAIN = "(float[2] x) => (float[2] y) { y = Neg(x) }"
X = np.array([1, -2], np.float32)
# The newest field of each message that a model contains; `convert/ir/features.py` lists by IR
# version what the newer fields hold.
NEWEST_FIELDS = {
    onnx.ModelProto: 26, onnx.GraphProto: 16, onnx.NodeProto: 10, onnx.FunctionProto: 14,
    onnx.AttributeProto: 23, onnx.TensorProto: 16, onnx.SparseTensorProto: 3, onnx.TypeProto: 9,
    onnx.ValueInfoProto: 4, onnx.TrainingInfoProto: 4, onnx.OperatorSetIdProto: 2,
}  # fmt: skip


@pytest.mark.parametrize("message", NEWEST_FIELDS, ids=lambda message: message.__name__)
def test_no_message_has_a_field_of_an_unknown_ir_version(message):
    new = [f.name for f in message.DESCRIPTOR.fields if f.number > NEWEST_FIELDS[message]]
    assert not new, "describe these fields in convert/ir/features.py, then raise the number here"


def results(proto, **more):
    session = InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": X, **more})


def same(before, after):
    """Requires that both models are legal and compute the same."""
    onnx.checker.check_model(after, full_check=True)
    for left, right in zip(results(before), results(after), strict=True):
        np.testing.assert_array_equal(left, right)


def weight(name="w", value=(1, 2)):
    return numpy_helper.from_array(np.array(value, np.float32), name)


@pytest.mark.parametrize("to", [4, 8, 11])
def test_the_header_alone_changes(to, tmp_path):
    before = model(PLAIN, 13, ir=8)
    before.graph.node[0].doc_string = "kept"
    onnx.save(before, tmp_path / "in.onnx")
    done = CliRunner().invoke(
        main, ["convert", f"{tmp_path}/in.onnx", "--ir", str(to), "-o", f"{tmp_path}/out.onnx"]
    )
    assert done.exit_code == 0
    after = onnx.load(tmp_path / "out.onnx")
    assert after.ir_version == to
    after.ir_version = before.ir_version
    assert after == before


def test_only_the_ir_version_runs_no_checker(monkeypatch):
    monkeypatch.setattr(onnx.checker, "check_model", None)
    assert convert_version(model(PLAIN, 13), ir_version=7).ir_version == 7


def test_raising_opens_nothing(monkeypatch):
    monkeypatch.setattr("opshift.convert.ir_version.Document", None)
    assert convert_version(model(PLAIN, 13), ir_version=10).ir_version == 10


def test_initializers_become_inputs_behind_the_true_ones():
    before = model("(float[2] x) => (float[2] y) { y = Add(x, w) }", 9)
    before.graph.initializer.append(weight())
    after = convert_version(before, ir_version=3)
    assert [value.name for value in after.graph.input] == ["x", "w"]
    assert after.graph.initializer == before.graph.initializer
    same(before, after)


BRANCHES = """(float[2] x) => (float[2] y) {
    c = Constant<value = bool {1}>()
    y = If (c) <then_branch = a () => (float[2] t) { t = Add(x, w) },
                else_branch = b () => (float[2] e) { e = Identity(x) }>
}"""


def test_initializers_of_subgraphs_become_constants():
    before = model(BRANCHES, 9)
    before.graph.node[1].attribute[0].g.initializer.append(weight())
    before.graph.node[1].attribute[1].g.initializer.append(weight("big", [3] * 4000))
    after = convert_version(before, ir_version=3)
    branch, other = (attribute.g for attribute in after.graph.node[1].attribute)
    assert [node.op_type for node in branch.node] == ["Constant", "Add"]
    assert not branch.initializer
    np.testing.assert_array_equal(
        numpy_helper.to_array(other.node[0].attribute[0].t), np.full(4000, 3, np.float32)
    )
    same(before, after)


def test_sparse_initializers_are_written_out():
    before = model("(float[2] x) => (float[2] y) { y = Add(x, w) }", 13)
    before.graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            weight("w", [5]), helper.make_tensor("w_at", TensorProto.INT64, [1], [1]), [2]
        )
    )
    after = convert_version(before, ir_version=5)
    assert not after.graph.sparse_initializer
    np.testing.assert_array_equal(numpy_helper.to_array(after.graph.initializer[0]), [0, 5])
    np.testing.assert_array_equal(results(after)[0], [1, 3])


def test_a_sparse_constant_is_written_out():
    before = model("(float[2] x) => (float[2] y) { w = Constant() y = Add(x, w) }", 13)
    sparse = helper.make_sparse_tensor(
        weight("", [5]), helper.make_tensor("", TensorProto.INT64, [1], [0]), [2]
    )
    before.graph.node[0].attribute.append(helper.make_attribute("sparse_value", sparse))
    after = convert_version(before, ir_version=5)
    np.testing.assert_array_equal(results(after)[0], [6, -2])


FUNCTIONS = """
<ir_version: 9, opset_import: ["" : 18, "acme" : 1]> g (float[2] x) => (float[2] y) {
    a = acme.Twice(x)
    y = acme.Scaled<by = 3.0>(a)
}
<opset_import: ["" : 18, "acme" : 1], domain: "acme"> Twice (v) => (r) { h = acme.Scaled(v) r = Add(h, h) }
<opset_import: ["" : 18], domain: "acme"> Scaled <by: float = 2.0> (v) => (r) {
    f = Constant<value_float: float = @by>()
    r = Mul(v, f)
}
"""


def test_functions_are_written_out_below_8():
    before = onnx.parser.parse_model(FUNCTIONS)
    after = convert_version(before, ir_version=7)
    assert not after.functions
    assert [entry.domain for entry in after.opset_import] == [""]
    assert ops(after) == "Constant Mul Add Constant Mul"
    same(before, after)


def test_defaults_of_functions_are_written_at_the_calls_below_9():
    before = onnx.parser.parse_model(FUNCTIONS)
    after = convert_version(before, ir_version=8)
    assert not any(function.attribute_proto for function in after.functions)
    assert list(after.functions[1].attribute) == ["by"]
    assert [
        a.f for f in after.functions for n in f.node for a in n.attribute if a.name == "by"
    ] == [2]
    same(before, after)


def test_overloads_are_renamed_below_10():
    before = onnx.parser.parse_model(FUNCTIONS)
    before.ir_version = 10
    other = before.functions.add()
    other.CopyFrom(before.functions[1])
    other.overload = "b"
    other.node[1].op_type = "Div"
    before.graph.node[1].overload = "b"
    after = convert_version(before, ir_version=9)
    assert [f.name for f in after.functions] == ["Twice", "Scaled", "Scaled_b"]
    assert after.graph.node[1].op_type == "Scaled_b"
    assert not after.graph.node[1].overload
    np.testing.assert_allclose(results(after)[0], X * 4 / 3, rtol=1e-6)


def test_functions_at_another_version_are_brought_to_that_of_the_model():
    before = onnx.parser.parse_model(FUNCTIONS)
    before.functions[1].opset_import[0].version = 17
    assert convert_version(before, ir_version=7).ir_version == 7  # these operators mean the same
    reduced = before.functions[1].node[1]
    reduced.op_type = "ReduceMax"
    with pytest.raises(InvalidModel, match="ReduceMax 'r' has 2 inputs; at opset 17"):
        convert_version(before, ir_version=7)
    del reduced.input[1:]
    reduced.attribute.append(onnx.helper.make_attribute("axes", [0]))
    after = convert_version(before, ir_version=7)
    assert not after.functions
    np.testing.assert_array_equal(results(after)[0], [2 * max(X)])


def with_metadata():
    before = model(PLAIN, 21, ir=10)
    before.metadata_props.add(key="author", value="kept: as old as the format")
    for proto in (before.graph, before.graph.node[0], before.graph.input[0]):
        proto.metadata_props.add(key="k", value="v")
    return before


NOTES = {
    "node": lambda m: m.graph.node[0].metadata_props.add(key="k", value="v"),
    "graph": lambda m: m.graph.metadata_props.add(key="k", value="v"),
    "value": lambda m: m.graph.output[0].metadata_props.add(key="k", value="v"),
    "tensor": lambda m: m.graph.initializer[0].metadata_props.add(key="k", value="v"),
    "function": lambda m: m.functions[0].metadata_props.add(key="k", value="v"),
    "types of a function": lambda m: m.functions[0].value_info.append(
        helper.make_tensor_value_info("c", 1, None)
    ),
    "device of a node": lambda m: m.graph.node[0].device_configurations.add(configuration_id="c"),
    "device": lambda m: m.configuration.add(name="c", num_devices=1),
    "annotation": lambda m: m.graph.quantization_annotation.add(tensor_name="w"),
}  # the fields that compute nothing


def noted(*names):
    if onnx.IR_VERSION < 12:
        pytest.skip("the installed onnx rejects IR 12")
    text = """<ir_version: 12, opset_import: ["": 18, "acme": 1]>
        g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add(x, w) y = acme.Twice(a) }
        <opset_import: ["": 18], domain: "acme"> Twice (v) => (r) { c = Neg(v) r = Add(c, v) }"""
    proto = onnx.parser.parse_model(text)
    for name in names:
        if name.startswith("device") and not hasattr(proto, "configuration"):
            pytest.skip("the installed onnx knows no device configurations")
        NOTES[name](proto)
    return proto


def converted(proto, folder, target, **more):
    """The result and the notes of a conversion from file to file."""
    onnx.save(proto, folder / "in.onnx")
    report = convert_file(folder / "in.onnx", folder / "out.onnx", target, **more)
    return onnx.load(folder / "out.onnx"), report.notes


@pytest.mark.parametrize("name", NOTES)
@pytest.mark.parametrize("target", [(13, "auto"), ("onnxruntime==1.11", "auto"), (None, 8)])
def test_what_computes_nothing_holds_up_no_ir_version(name, target, tmp_path):
    target, ir = target
    plain, told = converted(noted(), tmp_path, target, ir_version=ir)
    done = [
        note
        for note in told
        if not note.startswith("the model broke this rule before the conversion: ")
    ]
    assert not done or "the IR version stays at 8" in done[0]
    after, notes = converted(noted(name), tmp_path, target, ir_version=ir)
    assert after.ir_version == plain.ir_version == 8  # there is a function
    skipped = [text for text in notes if "does not affect results" in text]
    assert len(skipped) == (name != "annotation")  # which has its place since IR 5
    assert after != plain
    gone, _ = converted(noted(name), tmp_path, target, ir_version=ir, drop_metadata=True)
    assert (gone == plain) is (name != "annotation")
    same(noted(name), after)


@pytest.mark.parametrize("target", [(13, 8), ("onnxruntime==1.10", "auto"), (None, 8)])
def test_a_strict_ir_refuses_what_readers_would_skip(target, tmp_path):
    target, ir = target
    with pytest.raises(
        Refused, match=r"metadata of a node needs IR 10 \(Add 'a'\); drop it with drop_m"
    ):
        converted(noted("node"), tmp_path, target, ir_version=ir, strict_ir=True)
    after, _ = converted(noted("node"), tmp_path, 13, strict_ir=True)
    assert after.ir_version == 10  # nobody asked for a number


@pytest.mark.parametrize(
    ("target", "options", "verdict"),
    [
        (13, {}, "Possible: opset 18 -> 13, IR 12 -> 8."),
        ("onnxruntime==1.10", {}, "Possible: opset 18 -> 15, acme 1 -> removed, IR 12 -> 8."),
        (13, {"strict_ir": True}, "Possible: opset 18 -> 13, IR 12 -> 10."),
        (
            "onnxruntime==1.10",
            {"strict_ir": True},
            "Not possible: opset 15, IR 8. 1 place blocks it."
            " IR 10 is the lowest that this model can reach.",
        ),
    ],
)
def test_a_plan_tells_the_ir_version_that_a_conversion_gives(target, options, verdict, tmp_path):
    planned = plan(noted("node"), target, **options)
    assert str(planned).splitlines()[0] == verdict
    if planned.possible:
        after, _ = converted(noted("node"), tmp_path, target, **options)
        assert (planned.ir_before, planned.ir_after) == (12, after.ir_version)
    else:
        assert planned.ir_after is None


@pytest.mark.parametrize(
    ("opset", "ir", "to", "paired"),
    [(18, 10, 13, 7), (11, 10, 13, 7), (11, 6, 13, 7), (18, 8, 8, 3)],
)
def test_a_target_gives_the_ir_version_that_pairs_with_it(opset, ir, to, paired):
    assert convert_version(model(PLAIN, opset, ir=ir), to).ir_version == paired
    assert convert_version(model(PLAIN, to, ir=ir), to).ir_version == ir  # nothing to do


def test_metadata_is_dropped_only_on_request_and_reported(tmp_path):
    assert convert_version(with_metadata(), ir_version=8).graph.node[0].metadata_props
    after = convert_version(with_metadata(), ir_version=8, drop_metadata=True)
    assert len(after.metadata_props) == 1
    assert not after.graph.node[0].metadata_props
    onnx.save(with_metadata(), tmp_path / "in.onnx")
    report = convert_file(
        tmp_path / "in.onnx", tmp_path / "o.onnx", ir_version=8, drop_metadata=True
    )
    assert set(report.notes) == {
        "removed: metadata of graphs (1)",
        "removed: metadata of nodes (1)",
        "removed: metadata of values (1)",
    }


def test_every_obstacle_is_named_at_once():
    before = with_metadata()
    before.graph.value_info.append(helper.make_tensor_value_info("v", TensorProto.FLOAT8E5M2, [1]))
    before.training_info.add()
    with pytest.raises(Refused) as caught:
        convert_version(before, ir_version=6)
    message = str(caught.value)
    assert (
        "element type or container float8e5m2 needs IR 9 (value 'v'); ask for IR 9, or" in message
    )
    assert (
        "training information needs IR 7; drop it with drop_training (--drop-training)" in message
    )
    assert message.startswith("Cannot convert to"), message
    assert "block it. IR 9 is the lowest that this model can reach." in message
    assert convert_version(before, ir_version=9).ir_version == 9
    assert {refusal.why.name for refusal in caught.value.refusals} == {"IR_TOO_LOW"}


def test_quantization_annotations_go_with_the_metadata():
    before = model(PLAIN, 9, ir=5)
    before.graph.quantization_annotation.add(tensor_name="x")
    assert convert_version(before, ir_version=4).graph.quantization_annotation
    with pytest.raises(Refused, match="a quantization annotation needs IR 5"):
        convert_version(before, ir_version=4, strict_ir=True)
    assert not convert_version(
        before, ir_version=4, drop_metadata=True
    ).graph.quantization_annotation


def test_external_data_comes_into_the_model_at_ir_3(tmp_path):
    before = model("(float[2] x) => (float[2] y) { y = Add(x, w) }", 9)
    before.graph.initializer.append(weight())
    onnx.save(
        before, tmp_path / "in.onnx", save_as_external_data=True, location="d", size_threshold=0
    )
    convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", ir_version=3)
    (tmp_path / "d").unlink()
    np.testing.assert_array_equal(results(onnx.load(tmp_path / "out.onnx"))[0], [2, 0])


def test_both_at_once():
    before = model("(float[2] x) => (float[2] y) { y = Softmax<axis = 0>(x) }", 13)
    before.graph.initializer.append(weight())
    after = convert_version(before, 8, ir_version=3)
    assert (after.ir_version, after.opset_import[0].version) == (3, 8)
    onnx.checker.check_model(after)
    np.testing.assert_allclose(results(after)[0], results(before)[0])


def test_raising_keeps_everything():
    before = model("(float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", 9, ir=3)
    before.graph.initializer.append(weight())
    after = convert_version(before, ir_version=10)
    after.ir_version = 3
    assert after == before


def test_what_was_a_constant_stays_one_where_an_opset_brings_ir_4():
    before = model(
        "(float[2] x, float[2] w, float[2] v) => (float[2] y) { y = Sum(x, w, v) }", 8, 3
    )
    before.graph.initializer.extend([weight("w"), weight("v")])
    before.graph.input[2].doc_string = "learned"
    result = convert_with_report(before, 13)
    assert [value.name for value in result.model.graph.input] == ["x"]
    assert [(value.name, value.doc_string) for value in result.model.graph.value_info] == [
        ("v", "learned")
    ]
    (note,) = (text for text in result.report.notes if "initializers" in text)
    assert note.startswith("removed 2 initializers from the graph inputs")
    onnx.checker.check_model(result.model, full_check=True)
    np.testing.assert_array_equal(results(result.model)[0], results(before)[0])
    back = convert_version(result.model, 8, ir_version=3)
    assert [value.name for value in back.graph.input] == ["x", "w", "v"]


def test_a_default_of_another_shape_than_its_input_is_named():
    """After the removal of the input, nothing would show that the model was invalid."""
    body = "<float[4] w = {1,2,3,4}> { y = Add(x, w) }"
    text = f"(float[2,3] x, float[3] w) => (float[2,3] y) {body}"
    message = r"input 'w' .*float\)\[3\], and its initializer .*\[4\]"
    with pytest.raises(InvalidModel, match=message):
        convert_version(model(text, 8, ir=3), 13)
    (finding,) = (
        finding for finding in check(model(text, 8, ir=8)).found if finding.rule == "DEFAULT_TYPE"
    )
    assert finding.level == "error"


@pytest.mark.parametrize("place", ["object", "path"])
def test_functions_are_looked_at_where_they_begin_to_count(place, tmp_path):
    """Below IR 8, functions are an unknown field, so the source was not checked for recursion."""
    text = """<ir_version: 7, opset_import: ["": 13, "com.acme": 1]>
        g (float[2] x) => (float[2] y) { y = com.acme.F(x) }
        <domain: "com.acme", opset_import: ["": 13, "com.acme": 1]>
        F (v) => (w) { w = Neg(v) again = com.acme.F(v) }"""
    before = onnx.parser.parse_model(text)
    onnx.save(before, tmp_path / "a.onnx")
    source = before if place == "object" else tmp_path / "a.onnx"
    assert convert_version(source, ir_version=7).functions
    with pytest.raises(InvalidModel, match="calls itself"):
        convert_version(source, ir_version=8)


@pytest.mark.parametrize(
    ("last", "told"),
    [("F", "'F' of 'own' calls itself;"), ("G", "'F' of 'own' calls itself through 'G';")],
)
@pytest.mark.parametrize("to", [None, 12])
def test_functions_that_call_themselves_are_never_written_out(to, last, told):
    """The message is the one of `opshift check`, also if only the IR version changes."""
    header = '<opset_import: ["": 13, "own": 1], domain: "own">'
    text = f"""<ir_version: 10, opset_import: ["": 13, "own": 1]>
        g (float[2] x) => (float[2] y) {{ y = own.F(x) }}
        {header} F (v) => (w) {{ w = own.{last}(v) }}
        {header} G (v) => (w) {{ w = own.F(v) }}"""
    before = onnx.parser.parse_model(text)
    with pytest.raises(InvalidModel, match=told):
        convert_version(before, to, ir_version=6)
    assert any(told in finding.text for finding in check(before).found)


def test_a_default_that_callers_may_replace_stays_an_input():
    before = model("(float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", 9, ir=4)
    before.graph.initializer.append(weight())
    assert len(convert_version(before, 13).graph.input) == 2


def test_the_given_object_survives_a_refusal():
    before = onnx.parser.parse_model(FUNCTIONS)
    before.training_info.add()
    copy = onnx.ModelProto.FromString(before.SerializeToString())
    with pytest.raises(Refused):
        convert_version(before, ir_version=6, inplace=True)
    assert before == copy


def test_no_such_ir():
    with pytest.raises(BadTarget, match="or a number from 3 to"):
        convert_version(model(PLAIN, 13), ir_version=2)


def tensor(name, kind, values, shape=None):
    made = helper.make_tensor(name, kind, shape or [len(values)], values)
    return made


@pytest.mark.parametrize(
    ("kind", "values", "wide", "to"),
    [
        (TensorProto.INT4, [-8, 7, 0], np.int8, 9),
        (TensorProto.UINT4, [0, 15, 3], np.uint8, 9),
        (TensorProto.FLOAT8E4M3FN, [-448, 0.0625, 1], np.float32, 8),
        (TensorProto.FLOAT8E5M2FNUZ, [57344, -0.25, 0], np.float32, 8),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_small_constants_that_are_cast_get_a_wider_type(kind, values, wide, to, inside):
    node = "w = Constant() " if inside else ""
    text = f"(float[3] x) => (float[3] y) {{ {node} f = Cast<to=1>(w) y = Mul(x, f) }}"
    before = model(text, 21, ir=10)
    made = tensor("" if inside else "w", kind, values)
    if inside:
        before.graph.node[0].attribute.append(helper.make_attribute("value", made))
    else:
        before.graph.initializer.append(made)
        before.graph.value_info.append(helper.make_tensor_value_info("w", kind, [3]))
    after = convert_version(before, ir_version=to)
    onnx.checker.check_model(after, full_check=True)
    held = after.graph.node[0].attribute[0].t if inside else after.graph.initializer[0]
    array = numpy_helper.to_array(held)
    assert array.dtype == wide
    np.testing.assert_array_equal(array, np.array(values, wide))


@pytest.mark.parametrize("block", [0, 2])
def test_quantized_weights_get_a_wider_type_with_their_zero_point(block):
    shape = [4, 3] if block else [4]
    scale = [2, 3] if block else []
    text = f"(float[2] x) => (float{shape} y) {{ d = DequantizeLinear<axis=0, block_size={block}>(w, s, z) y = Identity(d) }}"
    before = model(text, 21, ir=10)
    before.graph.initializer.extend(
        [
            tensor("w", TensorProto.INT4, list(np.arange(int(np.prod(shape))) - 6), shape),
            numpy_helper.from_array(np.full(scale, 0.5, np.float32), "s"),
            tensor("z", TensorProto.INT4, [1] * int(np.prod(scale)), scale),
        ]
    )
    before.graph.node[0].input[2] = "z"
    same(before, convert_version(before, ir_version=9))


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Identity(w)",  # its type is the output's
        "f = Cast<to=1>(w) y = Identity(w)",  # one reader is enough
        "s = Constant<value = float {1.0}>() z = QuantizeLinear(x, s, v) f = Cast<to=1>(w) y = Identity(w)",
    ],
)
def test_small_types_that_matter_are_refused_by_name(nodes):
    kind = "int4" if "Identity(w)" in nodes else "float"
    before = model(f"(float[2] x) => ({kind}[2] y) {{ {nodes} }}", 21, ir=10)
    before.graph.initializer.extend(
        [tensor("w", TensorProto.INT4, [1, 2]), tensor("v", TensorProto.INT4, [0], [])]
    )
    copy = onnx.ModelProto.FromString(before.SerializeToString())
    with pytest.raises(
        Refused,
        match=r"int4 needs IR 10 \((value|initializer|QuantizeLinear) '\w+'\); ask for IR 10",
    ):
        convert_version(before, ir_version=9)
    assert before == copy


def test_an_overridable_constant_keeps_its_type():
    before = model("(float[2] x, int4[2] w) => (float[2] y) { y = Cast<to=1>(w) }", 21, ir=10)
    before.graph.initializer.append(tensor("w", TensorProto.INT4, [1, 2]))
    with pytest.raises(Refused, match=r"int4 needs IR 10 \(value 'w'\)"):
        convert_version(before, ir_version=9)


def test_small_types_between_nodes_go_where_the_opset_goes_down_and_comes_up():
    nodes = "s = Constant<value = float {1.0}>() q = QuantizeLinear<output_dtype=22>(x, s) y = DequantizeLinear(q, s)"
    before = model(f"(float[2] x) => (float[2] y) {{ {nodes} }}", 21, ir=10)
    after = convert_version(before, ir_version=9)
    assert (after.ir_version, after.opset_import[0].version) == (9, 21)
    same(before, after)


@pytest.mark.parametrize("opset", [6, 8, 9])
def test_initializers_of_subgraphs_have_a_place_at_every_opset(opset):
    """Opset 9 added integer constants; below it, an initializer of the main graph serves."""
    text = "(bool b, int64[2] x) => (int64[2] y) { y = If(b) <then_branch = t () => (int64[2] u) <int64[2] w = {3, 4}> { u = Identity(w) }, else_branch = e () => (int64[2] v) <int64[2] w = {5, 6}> { v = Identity(w) }> }"
    before = model(text, opset, ir=4)
    after = convert_version(before, ir_version=3)
    onnx.checker.check_model(after, full_check=True)
    for condition in (True, False):
        feeds = {"b": np.array(condition), "x": np.array([1, 2])}
        results = [oracle.evaluate(one, feeds) for one in (before, after)]
        assert oracle.compare(*results) is None


def test_training_information_goes_only_on_request(tmp_path):
    before = model(PLAIN, 13, ir=7, more=', "ai.onnx.preview.training" : 1')
    before.training_info.add().algorithm.node.append(
        onnx.helper.make_node(
            "Momentum", ["x"] * 5, ["g", "h"], domain="ai.onnx.preview.training",
            alpha=0.9, beta=0.9, mode="standard", norm_coefficient=0.0,
        )
    )  # fmt: skip
    onnx.save(before, tmp_path / "in.onnx")
    files = tmp_path / "in.onnx", tmp_path / "o.onnx"
    with pytest.raises(
        Refused, match="training information needs IR 7; drop it with drop_training"
    ):
        convert_file(*files, ir_version=6, drop_metadata=True)
    report = convert_file(*files, ir_version=6, drop_training=True)
    assert report.notes == ("removed: training information (1)",)
    after = onnx.load(files[1])
    assert not after.training_info
    assert [entry.domain for entry in after.opset_import] == [""]
    same(model(PLAIN, 13, ir=6), after)


def test_training_information_stays_where_it_has_a_place():
    before = model(PLAIN, 13, ir=8)
    before.training_info.add()
    assert convert_version(before, ir_version=7, drop_training=True).training_info


def test_a_sequence_of_maps_is_as_old_as_the_operator_that_gives_one():
    nodes = "{ y = ai.onnx.ml.ZipMap<classlabels_int64s = [3, 5]>(x) }"
    graph = f"g (float[2,2] x) => (seq(map(int64, float)) y) {nodes}"
    head = '<ir_version: 6, opset_import: ["": 11, "ai.onnx.ml": 1]>'
    after = convert_version(onnx.parser.parse_model(f"{head} {graph}"), {"": 11}, ir_version=3)
    assert after.ir_version == 3


@pytest.fixture
def four_gigabytes(tmp_path):
    """A model with a weight of 4 GB in a sparse file."""
    proto = model("(float[1,8] x) => (float[1,8] y) { m = MatMul(x, w) y = Gelu(m) }", 20, ir=9)
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[8, 1 << 27])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    proto.graph.initializer.append(tensor)
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 1 << 27
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(1 << 32)
    return path


def test_no_weight_is_read_to_judge_a_model_of_four_gigabytes(four_gigabytes, monkeypatch):
    """A target IR without external data is refused; all other targets give a result."""
    opened, really = [], os.open

    def spied(path, *words, **more):
        opened.append(os.path.basename(os.fspath(path)))
        return really(path, *words, **more)

    monkeypatch.setattr(os, "open", spied)
    old, new = "winml==win10-1809", "onnxruntime==1.10"
    assert [accepts(four_gigabytes, name).answer for name in (old, new)] == ["no", "no"]
    assert [fit.after for fit in survey(four_gigabytes, [old, new]).fits] == ["no", "yes"]
    assert [bool(plan(four_gigabytes, name).refusals) for name in (old, new)] == [True, False]
    for refused in ({"target": old}, {"ir_version": 3}):
        with pytest.raises(Refused, match="exceed the limit of 2 GB for one file"):
            convert_file(four_gigabytes, four_gigabytes.with_name("o.onnx"), **refused)
    assert set(opened) == {"m.onnx"}
