# SPDX-License-Identifier: Apache-2.0
"""`--types`: the changed types, the types that stay and the reasons, and the error of results."""

from __future__ import annotations

import json
import re

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from opshift import (
    BadTarget,
    InvalidModel,
    child_task,
    convert,
    convert_file,
    convert_version,
    plan,
)
from opshift.child_task import ChildAnswer
from opshift.cli.entry import main
from opshift.model.arrays import as_tensor, to_array
from opshift.model.bytes.ranges import Region
from opshift.model.weights.payloads import PART
from opshift.opsets import schemas
from opshift.opsets.elements import T
from opshift.opsets.type_pairs import PAIRS
from opshift.testing.model_text import parse_model
from opshift.verify import oracle, verify

pytestmark = pytest.mark.usefixtures("models_run_here")

LAYER = (
    "({t}[2,3] x) => ({t}[2,3] y) {{ w = Constant<value = float[3] {{0.1, -2.5, 7}}>()"
    " v = Cast<to={n}>(w) a = Mul(x, v) b = Cast<to=1>(a) c = Cast<to={n}>(b) y = Add(a, c) }}"
)
BRANCH = (
    "(float[2,3] x, bool c) => (float[2,3] y) <float[3] w = {0.1, 2, 3}> { z = Mul(x, w)"
    " y = If (c) <then_branch = t () => (float[2,3] p) { p = Identity(z) },"
    " else_branch = e () => (float[2,3] q) <float k = {0.3}> { q = Mul(z, k) }> }"
)
LOOP = (
    "(float[4,3] x) => (float[3] y) { i = Constant<value = int64 {4}>()"
    " on = Constant<value = bool {1}>() z = Constant<value = float[3] {0, 0, 0}>()"
    " y = Loop (i, on, z) <body = b (int64 at, bool c, float[3] had) => (bool d, float[3] has)"
    " { d = Identity(c) row = Gather(x, at) has = Add(had, row) }> }"
)
SEQUENCE = (
    "(float[2,3] x) => (float[4,3] y) { s = SequenceConstruct(x, x)"
    " y = ConcatFromSequence<axis=0>(s) }"
)
GENERATED = (
    "(float[2,3] x) => (float[2,3] y) { e = EyeLike(x) s = Shape(x) z = ConstantOfShape(s)"
    " k = Constant<value_float=1.5>() a = Sum(x, e, z, k) y = CastLike(a, x) }"
)
RESIZED = (
    "(float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] s = {1, 1, 2, 2}>"
    " { z = Neg(x) y = Resize(z, , s) }"
)
NETWORKS = {
    "layer": LAYER.format(t="float", n=1), "branch": BRANCH, "loop": LOOP, "sequence": SEQUENCE,
    "generated": GENERATED, "resized": RESIZED,
    "curve": "(float[2,3] x) => (float[2,3] y) { a = Tanh(x) b = Mul(a, x) y = Exp(b) }",
}  # fmt: skip
old_reference_fails = pytest.mark.skipif(
    (schemas.latest("") or 0) < 23,
    reason="the reference of onnx 1.17 computes no bfloat16, and reads float8 as integers",
)
DTYPES = {TensorProto.FLOAT: "f4", TensorProto.FLOAT16: "f2", TensorProto.DOUBLE: "f8"}


def model(text: str, opset: int = 18, ir: int = 8) -> onnx.ModelProto:
    return parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]> g {text}')


def operators(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


def types(proto: onnx.ModelProto) -> list[str]:
    """The element types of the inputs and outputs."""
    ends = (*proto.graph.input, *proto.graph.output)
    return [TensorProto.DataType.Name(end.type.tensor_type.elem_type).lower() for end in ends]


def inner_types(proto: onnx.ModelProto) -> set[str]:
    """The element types of all values, as onnx's inference finds them."""
    typed = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    found, graphs = set[int](), [typed.graph]
    for graph in graphs:
        graphs += [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
        infos = (*graph.value_info, *graph.input, *graph.output)
        found |= {tensor.data_type for tensor in graph.initializer}
        found |= {info.type.tensor_type.elem_type for info in infos}
    return {TensorProto.DataType.Name(one).lower() for one in found}


def answers(proto: onnx.ModelProto) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    feeds = {}
    for one in proto.graph.input:
        kind = one.type.tensor_type
        value = random.normal(size=[dim.dim_value for dim in kind.shape.dim])
        feeds[one.name] = value.astype(DTYPES[kind.elem_type]) if kind.elem_type in DTYPES else (
            np.array(True)
        )  # fmt: skip
    return ReferenceEvaluator(proto).run(None, feeds)


def test_every_place_of_a_type_changes():
    for name, number in (("bfloat16", 16), ("float16", 10)):
        converted = convert_version(model(LAYER.format(t=name, n=number)), types={name: "float"})
        assert types(converted) == ["float", "float"]
        assert {node.attribute[0].i for node in converted.graph.node if node.op_type == "Cast"} == {
            1
        }
        assert name not in onnx.printer.to_text(converted)


def test_a_type_that_no_value_has_is_noted():
    request = {"bfloat16": "float", "double": "float"}
    report = convert(model("(float[2] x) => (float[2] y) { y = Relu(x) }"), types=request).report
    (note,) = report.notes
    assert note == "no element type changed, because no value has the type bfloat16 or double"


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("keep", [False, True])
def test_widened_then_run_is_near_the_model(name, keep):
    text = NETWORKS[name]
    converted = convert_version(model(text), types={"float": "double"}, keep_io_types=keep)
    onnx.checker.check_model(converted, full_check=True)
    kind = "float" if keep else "double"
    assert set(types(converted)) - {"bool"} == {kind}
    for expected, actual in zip(answers(model(text)), answers(converted), strict=True):
        assert actual.dtype == ("f4" if keep else "f8")
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_narrowed_then_run_is_within_the_narrow_type(name):
    text = NETWORKS[name]
    converted = convert_version(model(text), types={"float": "float16"})
    onnx.checker.check_model(converted, full_check=True)
    for expected, actual in zip(answers(model(text)), answers(converted), strict=True):
        assert actual.dtype == "f2"
        np.testing.assert_allclose(actual, expected, rtol=5e-3, atol=5e-3)


def network(name: str, kind: str) -> onnx.ModelProto:
    """Returns a network in another type than float."""
    text = NETWORKS[name].replace("to=1>", "to=TO>")
    number = TensorProto.DataType.Value(kind.upper())
    text = re.sub(r"\bfloat\b(?=[\[ ])", kind, text).replace("TO", str(number))
    constant = re.compile(rf"({kind}(?:\[\d+\])?(?: \w+ =)?) {{([-\d., ]+)}}")
    return model(constant.sub(lambda one: f"{one[1]} {{{_literals(one[2], number)}}}", text))


def _literals(numbers: str, kind: int) -> str:
    """Returns numbers for the text form of a model: 16-bit codes, or the numbers themselves."""
    if kind in (TensorProto.DOUBLE, TensorProto.FLOAT):
        return numbers
    tensor = as_tensor(np.array([float(word) for word in numbers.split(",")]), kind)
    return ", ".join(map(str, np.frombuffer(tensor.raw_data, "<u2")))


@old_reference_fails
@pytest.mark.parametrize("name", ["layer", "branch", "loop", "curve"])
@pytest.mark.parametrize(("kind", "step"), [("float16", 2**-10), ("bfloat16", 2**-7)])
def test_a_widened_model_agrees_with_double(name, kind, step):
    source = network(name, kind)
    wide = convert_version(source, types={kind: "float"})
    verification = verify(source, wide, in_double=True, isolated=False)
    stated = re.findall(r"A is (\S+) from .+, B is (\S+) from it,", "\n".join(verification.notes))
    assert verification.equal
    assert stated
    for before, after in stated:
        assert (name == "curve") <= (float(after) > 0)  # no float is exactly its tangent
        assert float(after) <= 1e-6
        assert float(before) <= 8 * step


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize(
    "change", ["bfloat16=float", "float16=float", "double=float", "float=float16"]
)
@pytest.mark.parametrize("name", ["layer", "branch", "loop"])
def test_any_change_and_the_steps_may_come_in_either_order(name, change, opset):
    start, to = change.split("=")
    source, option = network(name, start), {"types": {start: to}}
    first = convert_version(convert_version(source, **option), opset)
    last = convert_version(convert_version(source, opset), **option)
    assert types(first) == types(last) == [to if kind == start else kind for kind in types(source)]
    assert to in types(first)
    assert start not in inner_types(first) | inner_types(last)
    for one, two in zip(answers(first), answers(last), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.start.name}={pair.to.name}")
def test_a_type_that_does_not_occur_changes_no_byte(pair):
    start = pair.start.name.lower()
    plain = parse_model(
        '<ir_version: 10, opset_import: ["" : 21, "f" : 1]> g (uint8[2] x) => (bool[2] y)'
        ' { z = f.same(x) y = Cast<to=9>(z) } <domain: "f", opset_import: ["" : 21]>'
        " same (a) => (b) { b = Identity(a) }"
    )
    result = convert(plain, types={start: pair.to.name.lower()})
    assert not result.report.changed
    assert result.model.SerializeToString() == plain.SerializeToString()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("opset", [16, 20])
def test_types_and_steps_may_come_in_either_order(name, opset):
    source, option = model(NETWORKS[name]), {"types": {"float": "double"}}
    first = convert_version(convert_version(source, **option), opset)
    last = convert_version(convert_version(source, opset), **option)
    together = convert_version(source, opset, **option)
    assert types(first) == types(last) == types(together) != types(source)
    for one, two, three in zip(answers(first), answers(last), answers(together), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("opset", [12, 20])
def test_a_change_of_integers_and_the_steps_may_come_in_either_order(opset):
    text = (
        "(int64[1,3] ids, float[10,4] w) => (float[1,3,4] y, int64[1,3] next) <int64 one = {1}>"
        " { e = Gather(w, ids) s = Shape(e) r = Reshape(e, s) y = Softmax<axis=1>(r)"
        " next = Add(ids, one) }"
    )
    source, option = model(text), {"types": {"int64": "int32"}}
    first = convert_version(convert_version(source, **option), opset)
    last = convert_version(convert_version(source, opset), **option)
    assert types(first) == types(last) != types(source)
    random = np.random.default_rng(0)
    weights = random.normal(size=(10, 4)).astype("f4")
    numbers = []
    for proto in (source, first, last):
        kind = onnx.helper.tensor_dtype_to_np_dtype(proto.graph.input[0].type.tensor_type.elem_type)
        feeds = {"ids": np.array([[7, 0, 9]], kind), "w": weights}
        numbers.append(ReferenceEvaluator(proto).run(None, feeds))
    for expected, *others in zip(*numbers, strict=True):
        for other in others:
            np.testing.assert_allclose(other, expected, rtol=1e-6)


def test_a_type_that_an_older_opset_lacks_is_no_obstacle_then():
    text = "(bfloat16[3] x) => (bfloat16[3] y) { y = Clip(x) }"
    assert operators(convert_version(model(text, 13), 7, types={"bfloat16": "float"})) == ["Clip"]


def test_an_input_of_a_fixed_type_keeps_it():
    result = convert(model(RESIZED), types={"float": "double"})
    assert result.model.graph.initializer[0].data_type == TensorProto.FLOAT
    assert any("'s': Resize does not support" in note for note in result.report.notes)


def test_a_number_that_is_too_large_keeps_its_node_in_the_wide_type():
    text = "(float[3] x) => (float[3] y) <float big = {100000}> { z = Div(x, big) y = Tanh(z) }"
    result = convert(model(text), types={"float": "float16"})
    assert operators(result.model) == ["Cast", "Div", "Cast", "Tanh"]
    assert any("'big': a value is 100000" in note for note in result.report.notes)


def test_numbers_that_lose_digits_are_named():
    text = "(float[3] x) => (float[3] y) <float tiny = {0.00001}> { y = Mul(x, tiny) }"
    result = convert(model(text), types={"float": "float16"})
    assert any("lose digits in 'tiny'" in note for note in result.report.notes)
    kept = text.replace("<float", "<float big = {100000}, float").replace(
        "(x, tiny)", "(big, tiny)"
    )
    result = convert(model(kept.replace("float[3] y", "float y")), types={"float": "float16"})
    assert not any("lose digits" in note for note in result.report.notes)


def test_integers_are_narrowed_where_they_are_proved_to_fit():
    text = (
        "(int64[1,N] ids, float[10,4] w) => (float[a,b,c] y) { e = Gather(w, ids) s = Shape(e)"
        " y = Reshape(e, s) }"
    )
    result = convert(model(text), types={"int64": "int32"})
    assert types(result.model) == ["int32", "float", "float"]
    assert operators(result.model) == ["Gather", "Shape", "Reshape"]
    assert any("int64 stays in 's'" in note for note in result.report.notes)


def test_a_sum_of_given_integers_stays_wide_behind_a_narrow_input():
    text = "(int64[2] x) => (float[2] y) <int64 one = {1}> { z = Add(x, one) y = Cast<to=1>(z) }"
    result = convert(model(text), types={"int64": "int32"})
    assert types(result.model) == ["int32", "float"]
    assert operators(result.model) == ["Cast", "Add", "Cast"]
    assert any(
        "'z' may reach 2147483648, which is out of the range of int32" in note
        for note in result.report.notes
    )
    value = ReferenceEvaluator(result.model).run(None, {"x": np.full(2, 2**31 - 1, "i4")})[0]
    np.testing.assert_array_equal(value, np.full(2, 2**31, "f4"))


def test_with_the_interface_kept_a_given_integer_is_not_narrowed():
    text = "(int64[2] x) => (int64[2] y) { y = Neg(x) }"
    result = convert(model(text), types={"int64": "int32"}, keep_io_types=True)
    assert not result.report.changed


@old_reference_fails
def test_four_bits_in_a_wider_type_are_bounded_as_before():
    text = (
        "(float[4] x) => (float[4] y) <float s = {{0.5}}, {t} z = {{2}}>"
        " {{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }}"
    )
    values = np.array([-100, -1.2, 1.2, 100], "f4")
    for start, to in (("int4", "int8"), ("uint4", "uint8")):
        plain = model(text.format(t=start), 21, 10)
        wide = convert_version(plain, types={start: to})
        assert start not in onnx.printer.to_text(wide).replace(
            "uint4", start if start == "uint4" else ""
        )
        expected, actual = (
            ReferenceEvaluator(one).run(None, {"x": values})[0] for one in (plain, wide)
        )
        np.testing.assert_array_equal(expected, actual)


def test_functions_are_written_out_at_their_calls():
    text = (
        '<ir_version: 8, opset_import: ["" : 18, "f" : 1]> g (float16[3] x) => (float16[3] y)'
        ' { y = f.twice(x) } <domain: "f", opset_import: ["" : 18]> twice (a) => (b)'
        " { k = Constant<value = float16 {16384}>() b = Mul(a, k) }"
    )
    result = convert(parse_model(text), types={"float16": "float"})
    assert result.report.inlined == ("f::twice",)
    assert "float16" not in onnx.printer.to_text(result.model)


def test_a_type_that_only_a_function_uses_changes_too():
    text = (
        '<ir_version: 8, opset_import: ["" : 18, "f" : 1]> g (float[3] x) => (float[3] y)'
        ' { y = f.low(x) } <domain: "f", opset_import: ["" : 18]> low (a) => (b)'
        " { h = Cast<to=16>(a) k = Neg(h) b = Cast<to=1>(k) }"
    )
    converted = convert_version(parse_model(text), types={"bfloat16": "float"})
    assert {node.attribute[0].i for node in converted.graph.node if node.op_type == "Cast"} == {1}


def test_names_and_metadata_stay():
    source = model(LAYER.format(t="float16", n=10), ir=10)
    source.graph.node[2].metadata_props.add(key="from", value="layer")
    source.graph.node[2].doc_string = "scaled"
    converted = convert_version(source, types={"float16": "float"})
    assert [node.output[0] for node in converted.graph.node] == ["w", "v", "a", "b", "c", "y"]
    assert (converted.graph.node[2].doc_string, converted.graph.node[2].metadata_props[0].value) == (
        "scaled", "layer",
    )  # fmt: skip


@pytest.mark.parametrize("external", [False, True])
def test_weights_are_converted_when_they_are_written(tmp_path, external):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(1100, 1024)).astype("f2")
    source = model("(float16[1,1100] x) => (float16[1,1024] y) { y = MatMul(x, w) }")
    source.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    copy = onnx.ModelProto.FromString(source.SerializeToString())
    onnx.save(copy, tmp_path / "in.onnx", save_as_external_data=external)
    convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", types={"float16": "float"})
    proto = onnx.load(tmp_path / "out.onnx")
    np.testing.assert_array_equal(to_array(proto.graph.initializer[0]), weight.astype("f4"))
    assert types(proto) == ["float", "float"]
    again = convert_version(source, types={"float16": "float"})
    assert again.graph.initializer[0].raw_data == weight.astype("f4").tobytes()
    inplace = onnx.ModelProto.FromString(source.SerializeToString())
    convert_version(inplace, types={"float16": "float"}, inplace=True)
    assert inplace == again


def test_every_verb_takes_the_request(tmp_path):
    onnx.save(model(LAYER.format(t="float16", n=10)), tmp_path / "in.onnx")
    words = [str(tmp_path / "in.onnx"), "--types", "float16=float", "--keep-io-types"]
    done = CliRunner().invoke(main, ["plan", *words, "--json"])
    document = json.loads(done.output)
    assert "float16 became float" in document["approximations"][0]
    assert any("added 2 Casts between" in note for note in document["notes"])
    out = tmp_path / "out.onnx"
    done = CliRunner().invoke(main, ["convert", *words, "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert types(onnx.load(out)) == ["float16", "float16"]
    assert plan(model(LAYER.format(t="float", n=1)), types={"float": "double"}).possible
    zoo = tmp_path / "zoo"
    zoo.mkdir()
    onnx.save(model(LAYER.format(t="float16", n=10)), zoo / "a.onnx")
    done = CliRunner().invoke(
        main,
        ["batch", str(zoo), str(tmp_path / "dst"), "--types", "float16=float", "--workers", "1"],
    )
    assert done.exit_code == 0, done.output
    assert types(onnx.load(tmp_path / "dst" / "a.onnx")) == ["float", "float"]


def test_the_runtimes_of_a_model_are_shown_after_the_change(tmp_path):
    onnx.save(model("(bfloat16[3] x) => (bfloat16[3] y) { y = Relu(x) }"), tmp_path / "in.onnx")
    words = ["targets", str(tmp_path / "in.onnx"), "onnxruntime==1.5", "--json"]
    runs = []
    for given in ([], ["--types", "bfloat16=float"]):
        done = CliRunner().invoke(main, [*words, *given])
        runs += [one["after"] for one in json.loads(done.output)["fits"]]
    assert runs == [False, True]
    done = CliRunner().invoke(main, ["targets", "--types", "bfloat16=float"])
    assert (done.exit_code, "without a model" in done.output) == (2, True)


@pytest.mark.parametrize("option", [{"float": "int8"}, {"quarter": "float"}, ["float"]], ids=str)
def test_a_change_that_is_not_offered_is_refused(option):
    with pytest.raises(BadTarget, match="types"):
        convert(model(LAYER.format(t="float", n=1)), types=option)


def test_a_pattern_stands_for_several_types():
    text = "(float[4] x) => (float[4] y) { q = Cast<to=17>(x) y = Cast<to=1>(q) }"
    assert convert_version(model(text, 19, 9), 18, types={"float8*": "float"}).graph.node


def test_a_model_of_another_domain_imports_the_domain_of_cast():
    text = (
        '<ir_version: 8, opset_import: ["ai.onnx.ml" : 1]> g (float[2,3] x) => (float[2,3] y)'
        " { y = ai.onnx.ml.Scaler<offset=[0.0], scale=[2.0]>(x) }"
    )
    converted = convert_version(parse_model(text), types={"float": "double"})
    versions = {opset.domain: opset.version for opset in converted.opset_import}
    assert (types(converted), operators(converted)) == (["double", "double"], ["Scaler", "Cast"])
    assert versions[""] >= 7


# -- numbers that a narrower type does not hold ----------------------------------------------------

TALL = {
    "product": "(float[3] x) => (float[3] y) <float k = {1000}> { a = Mul(x, k) b = Mul(a, a)"
    " c = Sqrt(b) y = Tanh(c) }",
    "constant": "(float[3] x) => (float[3] y) { k = Constant<value_float = 100000.0>()"
    " a = Mul(x, k) y = Tanh(a) }",
    "filled": "(float[3] x) => (float[3] y) { s = Shape(x)"
    " k = ConstantOfShape<value = float[1] {100000}>(s) a = Mul(x, k) y = Tanh(a) }",
    "branch": "(float[2,3] x, bool c) => (float[2,3] y) <float k = {1000}> { z = Mul(x, k)"
    " b = If (c) <then_branch = t () => (float[2,3] p) { q = Mul(z, z) p = Neg(q) },"
    " else_branch = e () => (float[2,3] r) { r = Neg(z) }> y = Tanh(b) }",
    "loop": "(float[4,3] x) => (float[3] y) { i = Constant<value = int64 {4}>()"
    " on = Constant<value = bool {1}>() z = Constant<value = float[3] {1, 1, 1}>()"
    " k = Constant<value = float {300}>()"
    " o = Loop (i, on, z) <body = b (int64 at, bool c, float[3] had) => (bool d, float[3] has)"
    " { d = Identity(c) has = Mul(had, k) }> row = ReduceSum<keepdims = 0>(x) a = Mul(o, row)"
    " y = Tanh(a) }",
    "sequence": "(float[3] x) => (float[6] y) <float k = {60000}> { a = Mul(x, k) b = Add(a, a)"
    " s = SequenceConstruct(b, b) z = ConcatFromSequence<axis = 0>(s) y = Tanh(z) }",
}  # fmt: skip


@pytest.mark.parametrize("name", TALL)
@pytest.mark.parametrize(("start", "to"), [("float", "float16"), ("double", "float")])
def test_what_a_narrow_type_cannot_hold_is_computed_in_the_wide_one(name, start, to):
    text = TALL[name].replace("float[", f"{start}[").replace("float k", f"{start} k")
    if start == "double":  # the numbers are as much too large for float as before for float16
        for small, large in (
            ("1000}", "1e25}"),
            ("300}", "1e13}"),
            ("60000}", "3e38}"),
            ("100000", "1e39"),
        ):
            text = text.replace(small, large)
        text = text.replace("value_float = 1e39.0", "value = double {1e39}").replace(
            "float {", "double {"
        )
    source = model(text)
    result = convert(source, types={start: to})
    onnx.checker.check_model(result.model, full_check=True)
    inner = [n.op_type for n in result.model.graph.node]
    assert "Cast" in inner
    assert any(f"the limit of {to} is" in note for note in result.report.notes)
    assert any("between the old and the new element type" in note for note in result.report.notes)
    assert any("between Casts" in note for note in result.report.notes)
    for expected, actual in zip(answers(source), answers(result.model), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=5e-3, atol=5e-3)


def test_given_inputs_decide_what_overflows(tmp_path):
    source = model("(float[3] x) => (float[3] y) { a = Mul(x, x) y = Sqrt(a) }")
    np.savez(tmp_path / "large.npz", x=np.array([1, 2, 3e4], "f4"))
    onnx.save(source, tmp_path / "in.onnx")
    words = [str(tmp_path / "in.onnx"), "--types", "float=float16"]
    more = ["--inputs", str(tmp_path / "large.npz")]
    for given, count in (([], 0), (more, 2)):
        out = tmp_path / "out.onnx"
        done = CliRunner().invoke(main, ["convert", *words, *given, "-o", str(out), "--verify"])
        assert done.exit_code == 0, done.output
        assert operators(onnx.load(out)).count("Cast") == count
        assert ("a value is 9e+08 on the given inputs" in done.output) == bool(count)


@pytest.mark.parametrize("keep", [False, True])
def test_a_given_input_that_is_too_large_stays_wide(tmp_path, keep):
    source = model("(float[3] x) => (float[3] y) <float k = {0.001}> { a = Mul(x, k) y = Sqrt(a) }")
    np.savez(tmp_path / "large.npz", x=np.array([1, 2, 1e6], "f4"))
    option = {"types": {"float": "float16"}, "inputs": tmp_path / "large.npz"}
    result = convert(source, **option, keep_io_types=keep)
    assert types(result.model)[0] == "float"
    assert operators(result.model)[:2] == ["Mul", "Cast"]
    assert any("stays in 'x', 'k': a value is 1e+06" in note for note in result.report.notes)


SEQUENCES = {
    "a type that is left out": "(float[2,3] x) => (float[2,3] y) { s = SequenceEmpty()"
    " t = SequenceInsert(s, x) i = Constant<value = int64 {0}>() y = SequenceAt(t, i) }",
    "a sequence of the interface": "(seq(float[2,3]) s) => (seq(float[2,3]) o)"
    " { i = Constant<value = int64 {0}>() e = SequenceAt(s, i) y = Neg(e)"
    " o = SequenceInsert(s, y) }",
}


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("keep", [False, True])
def test_a_sequence_and_what_is_put_into_it_have_one_type(name, keep):
    source = model(SEQUENCES[name])
    converted = convert_version(source, types={"float": "double"}, keep_io_types=keep)
    onnx.checker.check_model(converted, full_check=True)
    assert (converted.graph.input[0].type == source.graph.input[0].type) == keep


def test_the_interface_keeps_an_output_that_is_a_weight():
    text = "(float[3] x) => (float[3] y, float[3] w) <float[3] w = {1, 2, 3}> { y = Mul(x, w) }"
    converted = convert_version(model(text), types={"float": "float16"}, keep_io_types=True)
    assert types(converted) == ["float"] * 3
    assert converted.graph.initializer[0].data_type == TensorProto.FLOAT
    assert operators(converted) == ["Cast", "Cast", "Mul", "Cast"]


def test_a_value_that_callers_see_in_the_old_type_is_read_without_a_cast():
    text = (
        "(float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { z = Neg(x) n = Neg(s)"
        " y = Resize(z, , s) w = Add(n, n) }"
    )
    converted = convert_version(model(text), types={"float": "float16"}, keep_io_types=True)
    (resize,) = (node for node in converted.graph.node if node.op_type == "Resize")
    assert resize.input[2] == "s"


def test_inputs_that_the_model_does_not_take_are_an_error(tmp_path):
    source = model("(float[3] x) => (float[3] y) { y = Neg(x) }")
    np.savez(tmp_path / "other.npz", z=np.ones(3, "f4"))
    with pytest.raises(InvalidModel, match=r"does not run on '.*other.npz': .*no value is given"):
        convert(source, types={"float": "float16"}, inputs=tmp_path / "other.npz")


def test_a_model_that_does_not_run_has_a_note():
    text = (
        '<ir_version: 8, opset_import: ["" : 18, "own" : 1]> g (float[3] x) => (float[3] y)'
        " { z = own.Unknown(x) y = Neg(x) }"
    )
    result = convert(parse_model(text), types={"float": "float16"})
    assert any("no value was tested" in note for note in result.report.notes)
    unchecked = convert(parse_model(text), types={"float": "float16"}, check="none")
    assert any("asks for no checks" in note for note in unchecked.report.notes)


def test_a_plan_runs_a_file_once(tmp_path, monkeypatch):
    onnx.save(model(TALL["product"]), tmp_path / "in.onnx")
    runs = []
    monkeypatch.setattr(child_task, "run", lambda *a, **k: runs.append(a) or ChildAnswer(({}, "")))
    plan(tmp_path / "in.onnx", 12, types={"float": "float16"})
    assert len(runs) == 1


def test_positions_fit_if_the_sizes_prove_it():
    text = (
        "(float[N,7] x) => (int64[N] y, int64[N,2] i, float[N,2] v) <int64[1] k = {2}>"
        " { y = ArgMax<axis = 1, keepdims = 0>(x) v, i = TopK(x, k) }"
    )
    result = convert(model(text), types={"int64": "int32"})
    assert types(result.model) == ["float", "int32", "int32", "float"]
    over = text.replace("[N,7]", "[7,N]").replace("[N]", "[7]").replace("[N,2]", "[7,2]")
    assert not convert(model(over), types={"int64": "int32"}).report.changed


def test_external_weights_are_read_in_parts(tmp_path, monkeypatch):
    weight = np.zeros((3000, 1024), "f2")
    source = model("(float16[1,3000] x) => (float16[1,1024] y) { y = MatMul(x, w) }")
    source.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    onnx.save(source, tmp_path / "in.onnx", save_as_external_data=True)
    sizes, read = [], Region.read
    monkeypatch.setattr(Region, "read", lambda self: sizes.append(self.length) or read(self))
    convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", types={"float16": "float"})
    assert sum(size for size in sizes if size > 1 << 16) == weight.nbytes
    assert max(sizes) <= 2 * PART


FLOAT8 = {
    "one scale": "(float[2,3] x) => (float[2,3] y) <float s = {0.5}, KIND z = {0}>"
    " { q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }",
    "a scale for each row": "(float[2,3] x, float[2] s) => (float[2,3] y)"
    " { q = QuantizeLinear<axis = 0, output_dtype = CODE>(x, s)"
    " y = DequantizeLinear<axis = -2>(q, s) }",
    "weights in float16": "(float16[2,3] x, float16[3] s) => (float16[2,3] y)"
    " { q = Cast<to = CODE>(x) y = DequantizeLinear<axis = 1>(q, s) }",
    "without a limit": "(float[2,3] x) => (float[2,3] y) <float s = {1}>"
    " { q = QuantizeLinear<output_dtype = CODE, saturate = 0>(x, s) y = DequantizeLinear(q, s) }",
}


@pytest.mark.parametrize("to", ["float16", "float"])
@pytest.mark.parametrize("name", FLOAT8)
@pytest.mark.parametrize("kind", [T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ])
def test_scaled_codes_of_float8_are_written_in_a_wider_type(kind, name, to):
    text = FLOAT8[name].replace("CODE", str(int(kind))).replace("KIND", kind.name.lower())
    source = model(text, 21, 10)
    converted = convert_version(source, types={"float8*": to})
    onnx.checker.check_model(converted, full_check=True)
    assert "float8" not in onnx.printer.to_text(converted)
    assert not {int(kind)} & {a.i for node in converted.graph.node for a in node.attribute}
    assert not any("QuantizeLinear" in node.op_type for node in converted.graph.node)
    x = np.array([[0.5, -1, 2], [4, -0.25, 60000 if name == "one scale" else 1]])
    feeds = {"x": x.astype("f4"), "s": np.array([0.5, 2, 1][: 2 if "row" in name else 3], "f4")}
    feeds = {
        value.name: feeds[value.name].astype(DTYPES[value.type.tensor_type.elem_type])
        for value in source.graph.input
    }
    for expected, actual in zip(
        *(oracle.evaluate(one, feeds) for one in (source, converted)), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)


BLOCKS = {  # the shape of the scales by the network
    "codes of columns": (
        "(float[4,5] x, float[4,3] s) => (float[4,5] y) { q = Cast<to = CODE>(x)"
        " y = DequantizeLinear<axis = 1, block_size = 2>(q, s) }", (4, 3),
    ),
    "quotients of rows": (
        "(float[5,4] x, float[3,4] s) => (float[5,4] y) { q = QuantizeLinear<axis = -2,"
        " block_size = 2, output_dtype = CODE>(x, s) y = Cast<to = 1>(q) }", (3, 4),
    ),
    "unknown sizes": (
        "(float[N,5] x, float[N,3] s) => (float[N,5] y) { q = QuantizeLinear<axis = -1,"
        " block_size = 2, output_dtype = CODE, saturate = 0>(x, s)"
        " y = DequantizeLinear<axis = -1, block_size = 2>(q, s) }", (4, 3),
    ),
    "weights": (
        "(float[3,4] x, float[2,4] s) => (float[3,4] y) <KIND[3,4] w = {0,1,2,3,4,5,6,7,8,60,61,9}>"
        " { d = DequantizeLinear<axis = 0, block_size = 2>(w, s) y = Mul(x, d) }", (2, 4),
    ),
}  # fmt: skip


@old_reference_fails
@pytest.mark.parametrize("to", ["float16", "float"])
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_float8_are_written_in_a_wider_type(name, to):
    text, scales = BLOCKS[name]
    source = model(text.replace("CODE", "19").replace("KIND", "float8e5m2"), 21, 10)
    converted = convert_version(source, types={"float8*": to})
    onnx.checker.check_model(converted, full_check=True)
    assert "float8" not in onnx.printer.to_text(converted)
    assert not any("QuantizeLinear" in node.op_type for node in converted.graph.node)
    random = np.random.default_rng(0)
    sizes = [dim.dim_value or 4 for dim in source.graph.input[0].type.tensor_type.shape.dim]
    feeds = {
        "x": random.choice(np.array([0.5, -1, 2, 16], "f4"), size=sizes),
        "s": random.choice(np.array([0.5, 1, 4], "f4"), size=scales),
    }
    for expected, actual in zip(
        *(oracle.evaluate(one, feeds) for one in (source, converted)), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.skipif((schemas.latest("") or 0) < 24, reason="this onnx has no opset 24")
def test_scales_that_are_powers_and_a_precision_are_written_in_floats():
    text = (
        "(float16[2,4] x) => (float[2,4] y) <float8e8m0[2] s = {126, 128}> {"
        " q = QuantizeLinear<axis = 0, precision = 1, output_dtype = 17>(x, s)"
        " y = DequantizeLinear<axis = 0, output_dtype = 1>(q, s) }"
    )
    converted = convert_version(model(text, 24, 11), types={"float8*": "float"})
    x = np.array([[1, -2, 0.5, 4], [2, 4, -16, 1]], "f2")
    np.testing.assert_array_equal(oracle.evaluate(converted, {"x": x})[0], x.astype("f4"))
    assert "float8e4m3fn" not in onnx.printer.to_text(converted)


def test_the_cost_in_weights_is_stated():
    text = "(float16[1,8] x) => (float16[1,4] y) { y = MatMul(x, w) }"
    source = model(text)
    source.graph.initializer.append(numpy_helper.from_array(np.ones((8, 4), "f2"), "w"))
    (told,) = plan(source, types={"float16": "float"}).approximations
    assert "(1 constant, 64 B before and 128 B now)" in told


def test_a_sparse_weight_may_be_read_after_an_operator_without_inference():
    m = parse_model(
        '<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]> g (float[2,4] x)'
        " => (float[2,4] y) { h = com.microsoft.Gelu(x) y = MatMul(h, w) }"
    )
    values = numpy_helper.from_array(np.array([1.5, 2.5], np.float32), "w")
    places = numpy_helper.from_array(np.array([0, 3]))
    sparse = onnx.SparseTensorProto(values=values, indices=places, dims=[4, 4])
    m.graph.sparse_initializer.append(sparse)
    made = convert(m, types={"float": "double"}).model.graph
    assert made.sparse_initializer[0].values.data_type == TensorProto.DOUBLE


FLOATS_AND_INTEGERS = [
    pair for pair in PAIRS if pair.start in (T.FLOAT, T.DOUBLE, T.FLOAT16, T.INT64)
]


def named(pair):
    return pair.start.name.lower(), pair.to.name.lower()


@pytest.mark.parametrize("weight", ["1.5", "100000"])
@pytest.mark.parametrize(
    ("first", "other"),
    [(a, b) for a in FLOATS_AND_INTEGERS for b in FLOATS_AND_INTEGERS if a.start != b.start],
    ids=lambda pair: "-".join(named(pair)),
)
def test_a_cast_between_two_types_that_change_follows_both(first, other, weight):
    (start, to), a, c = named(first), first.start, other.start
    weight = "1.5" if T.FLOAT16 in (a, c) else weight
    m = model(
        f"({start}[2,3] x) => ({start}[2,3] y) {{ c = Cast<to={int(c)}>(x) e = Mul(c, c)"
        f" d = Cast<to={int(a)}>(e) w = Constant<value = float {{{weight}}}>() v = Cast<to={int(a)}>(w)"
        " s = Add(x, d) y = Mul(s, v) }",
        13,
    )
    x = np.array([[0, 1, 2], [3, 4, 5]], a.element.numpy)
    converted = convert(m, types=dict([(start, to), named(other)])).model
    given = as_tensor(x, converted.graph.input[0].type.tensor_type.elem_type)
    before, after = (
        ReferenceEvaluator(one).run(None, {"x": value})[0]
        for one, value in ((m, x), (converted, to_array(given)))
    )
    assert np.allclose(before.astype(float), after.astype(float), rtol=1e-2)


SIZES_IN_FLOATS = (
    "(float[N,3] x) => (float[a,b] y) <int64[1] zero = {0}, int64[1] one = {1}, float[1] h = {2}> {"
    " s = Shape(x) f = Cast<to=1>(s) p = Slice(f, zero, one) m = Mul(p, h) d = Div(m, h)"
    " q = Cast<to=7>(d) c = ConstantOfShape(q) u = Unsqueeze<axes = [1]>(c) y = Add(x, u) }"
)


@pytest.mark.parametrize("rows", [5, 2049])
def test_sizes_that_are_computed_in_floats_stay_exact(rows):
    result = convert(model(SIZES_IN_FLOATS, 11), types={"float": "float16"})
    assert any("'f', 'p', 'm', 'd'" in note and "2048" in note for note in result.report.notes)
    x = np.ones((rows, 3), np.float16)
    (computed,) = ReferenceEvaluator(result.model).run(None, {"x": x})
    assert computed.dtype == np.float16
    assert np.array_equal(computed, x)


def test_sizes_that_the_new_type_holds_change():
    fixed = model(SIZES_IN_FLOATS.replace("N,3", "9,3"), 11)
    assert not convert(fixed, types={"float": "float16"}).report.notes[1:]
    wide = model(SIZES_IN_FLOATS.replace("float", "double").replace("to=1", "to=11"), 11)
    notes = convert(wide, types={"double": "float"}).report.notes
    assert not any("size" in note for note in notes)


@pytest.mark.parametrize(
    ("kind", "nodes", "changed"),
    [
        ("int64", "c = Cast<to = 1>(a) d = Neg(c) b = Cast<to = 7>(d)", True),
        ("int64", "c = Constant<value = float {2.5}>() d = Cast<to = 7>(c) b = Add(a, d)", True),
        ("int64", "c = Cast<to = 6>(a) d = Cast<to = 7>(c) b = Add(a, d)", False),
        ("double", "b = Softmax<axis = 1>(a)", False),
        # the type in which the sums are computed is no type of a value
        ("double", "s = Constant<value = double[3] {1, 2, 1}>()"
         " b = LayerNormalization<stash_type = 1>(a, s)", False),
    ],
)  # fmt: skip
def test_a_function_is_inlined_only_if_it_has_a_value_of_a_type_that_changes(kind, nodes, changed):
    source = parse_model(
        f'<ir_version: 8, opset_import: ["" : 18, "f" : 1]> g ({kind}[2,3] x) => ({kind}[2,3] y)'
        ' { y = f.F(x) } <domain: "f", opset_import: ["" : 18]> F (a) => (b) { ' + nodes + " }"
    )
    converted = convert_version(source, types={"float": "float16"})
    if changed:
        assert inner_types(converted) == {"float16", "int64"}
    else:
        assert converted == source
