# SPDX-License-Identifier: Apache-2.0
"""`--modernize`: its conditions, its reports, and its support in every command."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import numpy_helper
from opshift import Request, convert_version, plan
from opshift.adapter import modern
from opshift.author import formula, registry
from opshift.author.verdicts import Mirror
from opshift.cli.entry import main
from opshift.convert import modernize
from opshift.convert.api import convert_with_report
from opshift.opsets import schemas
from opshift.report import Report
from opshift.testing.model_text import parse_model

pytestmark = pytest.mark.usefixtures("models_run_here")

ONE = "(float[2,3] x) => (float[2,3] y) "
NUMBERS = "<float r = {1.4142135}, float one = {1}, float half = {0.5}> "
GELU = "d = Div(x, r) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)"
PLAIN = ONE + NUMBERS + "{ " + GELU + " }"


def model(text: str, opset: int, more: str = "") -> onnx.ModelProto:
    return parse_model(f'<ir_version: 8, opset_import: ["" : {opset}{more}]> g {text}')


def operators(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


def test_it_is_off_by_default():
    assert "Gelu" not in operators(convert_version(model(PLAIN, 13), 20))


def test_it_works_at_the_target_and_removes_what_is_no_longer_read():
    result = convert_with_report(model(PLAIN, 13), 20, modernize=True)
    assert operators(result.model) == ["Gelu"]
    assert not result.model.graph.initializer
    (site,) = result.report.modernized
    assert (site.op, site.value, site.nodes) == ("Gelu", "y", 5)
    assert site.rule == "opshift_adapters.elementwise.activation.gelu_20_19"
    assert Report.from_json(result.report.to_json()) == result.report


def test_the_operator_must_exist_at_the_target():
    result = convert_with_report(model(PLAIN, 13), 19, modernize=True)
    assert "Gelu" not in operators(result.model)
    assert result.report.modernized == ()


def test_without_a_target_the_opset_stays():
    result = convert_with_report(model(PLAIN, 20), modernize=True)
    assert operators(result.model) == ["Gelu"]
    assert result.report.changed
    again = convert_with_report(result.model, modernize=True)
    assert again.model == result.model
    assert not again.report.changed


def annotated(proto: onnx.ModelProto) -> None:
    note = proto.graph.quantization_annotation.add(tensor_name="e")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="half")


def read_in_a_branch(proto: onnx.ModelProto) -> None:
    other = model(
        "(float[2,3] x, bool c) => (float[2,3] y, float[2,3] z) " + NUMBERS + "{ " + GELU
        + " z = If(c) <then_branch = t () => (float[2,3] p) { p = Neg(e) },"
        " else_branch = f () => (float[2,3] q) { q = Abs(x) }> }",
        20,
    )  # fmt: skip
    proto.CopyFrom(other)


def given_out(proto: onnx.ModelProto) -> None:
    proto.graph.output.add(name="a").type.CopyFrom(proto.graph.output[0].type)


def overridable(proto: onnx.ModelProto) -> None:
    info = onnx.helper.make_tensor_value_info("half", onnx.TensorProto.FLOAT, [])
    proto.graph.input.append(info)


@pytest.mark.parametrize("harm", [annotated, read_in_a_branch, given_out, overridable])
def test_what_something_else_reads_or_sets_stays(harm):
    proto = model(PLAIN, 20)
    harm(proto)
    result = convert_with_report(proto, modernize=True)
    assert "Gelu" not in operators(result.model)
    assert result.report.modernized == ()


def test_it_works_in_branches_and_functions():
    text = (
        "(float[2,3] x, bool c) => (float[2,3] z) { z = If(c) <then_branch = t () => (float[2,3] y) "
        + NUMBERS + "{ " + GELU + " }, else_branch = f () => (float[2,3] q) { q = own.f(x) }> }"
    )  # fmt: skip
    function = (
        '<opset_import: ["" : 20], domain: "own"> f (x) => (y) { r = Constant<value_float=1.4142135>()'
        " one = Constant<value_float=1.0>() half = Constant<value_float=0.5>() " + GELU + " }"
    )
    proto = model(f"{text} {function}", 20, more=', "own" : 1')
    result = convert_with_report(proto, modernize=True, check="full")
    branch = result.model.graph.node[0].attribute[0].g
    assert [node.op_type for node in branch.node] == ["Gelu"]
    assert [node.op_type for node in result.model.functions[0].node] in (["Gelu"], FUNCTION)


FUNCTION = ["Constant"] * 3 + ["Div", "Erf", "Add", "Mul", "Mul"]  # the type of x is not known


def test_two_in_a_row_and_one_inside_of_the_other():
    text = (
        ONE + NUMBERS + "{ " + GELU.replace("y = ", "k = ")
        + " d2 = Div(k, r) e2 = Erf(d2) a2 = Add(one, e2) m2 = Mul(half, a2) y = Mul(k, m2) }"
    )  # fmt: skip
    result = convert_with_report(model(text, 20), modernize=True)
    assert operators(result.model) == ["Gelu", "Gelu"]
    assert [site.value for site in result.report.modernized] == ["k", "y"]


@pytest.mark.parametrize("seed", range(25))
def test_any_order_and_grouping_of_a_product_is_found(seed):
    draw = random.Random(seed)
    nodes = ["d = Mul(x, i)", "e = Erf(d)", "a = Add(one, e)"]
    left = ["x", "half", "a"]
    while len(left) > 1:
        draw.shuffle(left)
        first, second, *left = left
        name = f"p{len(left)}" if left else "y"
        if second == "half" and draw.random() < 0.5:
            nodes.append(f"{name} = Div({first}, two)")
        else:
            nodes.append(f"{name} = Mul({first}, {second})")
        if draw.random() < 0.3 and left:
            nodes.append(f"{name}i = Identity({name})")
            name += "i"
        left.append(name) if left else None
    text = ONE + "<float i = {0.70710677}, float one = {1}, float two = {2}, float half = {0.5}> "
    result = convert_with_report(model(text + "{ " + " ".join(nodes) + " }", 20), modernize=True)
    assert operators(result.model) == ["Gelu"]


HIDING = """(float[2,2,3,4] q, float[2,2,5,4] k, float[2,2,5,6] v, float[{mask}5] m) => (float[2,2,3,6] y)
    <float c = {{0.5}}, float i = {{-inf}}, float o = {{0}}, int64[1] a = {{{axis}}}> {{
    t = Transpose<perm = [0, 1, 3, 2]>(k) r = MatMul(q, t) z = Mul(r, c) b = Add(z, m)
    p = Softmax<axis = {last}>(b) h = ReduceMax(m, a) w = Equal(h, i) e = Where(w, o, p)
    y = MatMul(e, v) }}"""


@pytest.mark.parametrize(("mask", "axis", "last", "found"), [
    ("3,", -1, 3, True), ("3,", 1, -1, True), ("2,1,3,", 3, -1, True),
    ("3,", 0, -1, False), ("3,", -2, 3, False), ("2,1,3,", 1, -1, False), ("3,", 1, 1, False),
])  # fmt: skip
@pytest.mark.skipif((schemas.latest("") or 0) < 23, reason="the installed onnx is older")
def test_an_axis_counts_from_the_front_or_the_end(mask, axis, last, found):
    text = HIDING.format(mask=mask, axis=axis, last=last)
    converted = convert_version(model(text, 23), modernize=True)
    assert (operators(converted) == ["Attention"]) is found


@modern("Mish", since=18)
def there_and_back(op, X):  # noqa: N803
    """A wrong rule, whose nodes add and remove a last axis."""
    return op.Squeeze(op.Unsqueeze(X, axes=[-1]), axes=[-1])


@pytest.mark.parametrize(("axis", "found"), [(-1, True), (2, True), (1, False), (0, False)])
def test_added_axes_count_in_the_result(axis, found, with_adapters):
    with_adapters(there_and_back)
    pair = f"<int64[1] a = {{{axis}}}> {{ u = Unsqueeze(x, a) y = Squeeze(u, a) }}"
    converted = convert_version(model(ONE + pair, 20), modernize=True)
    assert (operators(converted) == ["Mish"]) is found


# --- rules that no adapter declares ---------------------------------------------------------------


def rule(op: str, run, **more):
    """A wrong rule that finds the nodes of a formula."""
    run.__doc__ = "A false rule."
    return modern(op, since=13, **more)(run)


SIN_COS = ONE + "{ c = Cos(x) y = Sin(c) }"


def found(text: str, opset: int = 20, **options) -> list[str]:
    return operators(convert_version(model(text, opset), modernize=True, **options))


@pytest.mark.parametrize(
    ("numbers", "written"),
    [
        ({"alpha": 0.5}, {"alpha": 0.5}),
        ({"alpha": 1.0}, {}),  # the default
        ({"alpha": 0.1}, None),  # no float32
        (None, None),  # the nodes compute something else
    ],
)
@pytest.mark.parametrize("declared", [True, False])
def test_attributes_are_written_if_they_are_exact(numbers, written, declared, with_adapters):
    by_when = {"when": lambda found: numbers}
    told = {"attributes": numbers} if declared and numbers else by_when
    with_adapters(rule("Elu", lambda op, X: op.Sin(op.Cos(X)), **told))  # noqa: N803
    (node, *_) = convert_version(model(SIN_COS, 20), modernize=True).graph.node
    if written is None:
        assert node.op_type == "Cos"
    else:
        assert node.op_type == "Elu"
        assert {one.name: one.f for one in node.attribute} == written


def test_a_parameter_may_be_a_constant(with_adapters):
    def power(op, X, Y):  # noqa: N803
        return op.Sin(op.Cos(X))

    two = np.array([2], np.float32)
    with_adapters(rule("Pow", power, when=lambda found: {"Y": two}))
    result = convert_version(model(SIN_COS, 20), modernize=True)
    (node,) = result.graph.node
    assert (node.op_type, node.input[0]) == ("Pow", "x")
    (constant,) = result.graph.initializer
    assert (constant.name, numpy_helper.to_array(constant)) == (node.input[1], two)


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("BitwiseNot", "it does not take floats"),
        ("IsNaN", "its result has another type"),
        ("NonZero", "its result has another type and shape"),
    ],
)
def test_an_operator_of_other_types_is_not_written(op, reason, with_adapters):
    with_adapters(rule(op, lambda op, X: op.Sin(op.Cos(X))))  # noqa: N803
    assert found(SIN_COS) == ["Cos", "Sin"], reason


def test_an_operator_of_another_rank_is_not_written(with_adapters):
    with_adapters(rule("Abs", lambda op, X: op.Squeeze(op.Neg(X))))  # noqa: N803
    text = "(float[1,3] x) => (float[3] y) { n = Neg(x) y = Squeeze(n) }"
    assert found(text) == ["Neg", "Squeeze"]
    assert found(text.replace("[1,3]", "[3]")) == ["Abs"]


def test_an_operator_that_does_not_take_the_type_is_not_written(with_adapters):
    """The result of IsNaN has the same type for all inputs, but IsNaN takes no integers."""
    with_adapters(rule("IsNaN", lambda op, X: op.Not(op.Equal(X, X))))  # noqa: N803
    text = "({0}[3] x) => (bool[3] y) {{ e = Equal(x, x) y = Not(e) }}"
    assert found(text.format("float")) == ["IsNaN"]
    assert found(text.format("int32")) == ["Equal", "Not"]
    unknown = """(int32[3] x) => (bool[3] y) { y = own.f(x) }
        <opset_import: ["" : 20], domain: "own"> f (x) => (y) { e = Equal(x, x) y = Not(e) }"""
    (function,) = convert_version(model(unknown, 20, more=', "own" : 1'), modernize=True).functions
    assert [node.op_type for node in function.node] == ["Equal", "Not"]


@pytest.mark.parametrize(("outputs", "kept"), [("y", False), ("y, mask", True)])
def test_a_node_with_two_results_stays(outputs, kept, with_adapters):
    with_adapters(rule("Abs", lambda op, X: op.Dropout(op.Cos(X))))  # noqa: N803
    written = found(ONE + f"{{ c = Cos(x) {outputs} = Dropout(c) }}")
    assert written == (["Cos", "Dropout"] if kept else ["Abs"])


def test_a_rule_whose_result_differs_needs_permission(with_adapters):
    differing = rule("Abs", lambda op, X: op.Sin(op.Cos(X)), differs="by much")  # noqa: N803
    with_adapters(differing)
    assert found(SIN_COS) == ["Cos", "Sin"]
    result = convert_with_report(model(SIN_COS, 20), modernize=True, allow_approximate=True)
    assert operators(result.model) == ["Abs"]
    assert "by much" in str(result.report)


@pytest.mark.skipif(
    "device_configurations" not in onnx.NodeProto.DESCRIPTOR.fields_by_name, reason="onnx is older"
)
def test_a_node_with_a_placement_stays(with_adapters):
    with_adapters(rule("Abs", lambda op, X: op.Sin(op.Cos(X))))  # noqa: N803
    proto = model(SIN_COS, 20)
    proto.ir_version = 11
    proto.configuration.add(name="two", num_devices=2)
    proto.graph.node[0].device_configurations.add(configuration_id="two")
    assert operators(convert_version(proto, modernize=True)) == ["Cos", "Sin"]


ROUND = """<ir_version: 8, opset_import: ["" : 13]> g (float[2] x) => (float[2] y)
    <float w = {{12582912}}> {{ a = Ceil(x) {cast} n = Add(d, w) h = Add(e, w) l = Less(n, h)
    c = Cast<to = 1>(l) y = Sub(a, c) }}"""


def test_nodes_of_a_form_for_another_type_are_not_confirmed() -> None:
    """The nodes compute the sum in a wider type only if the data have a narrow type."""
    for cast in ("d = Cast<to = 1>(x) e = Cast<to = 1>(a)", "d = Identity(x) e = Identity(a)"):
        model = parse_model(ROUND.format(cast=cast))
        converted = convert_version(model, modernize=True)
        assert "Round" not in {node.op_type for node in converted.graph.node}


# --- parts of the search --------------------------------------------------------------------------


def test_the_rules_for_an_opset_write_operators_of_the_opset():
    adapters = registry.default()
    for version in (12, 17, 20):
        rules = modernize.rules(adapters, version)
        assert {isinstance(rule.declared, Mirror) for rule in rules} == {True, False}
        assert {rule.op for rule in rules if rule.declared.since > version} == set()
    assert len(modernize.rules(adapters, 12)) < len(rules)


def test_operators_that_formulas_contain_are_written_first():
    """Independent rules are sorted by decreasing size, so that a part does not hide the whole."""
    ordered = modernize.in_order(registry.default(), schemas.latest("") or 0)
    later = [rule.op for rule in ordered]
    for rule in ordered:
        later.remove(rule.op)
        assert not (formula.operators(rule.formula) - {rule.op}) & set(later)
    assert len({rule.op for rule in ordered}) > 5


def test_rules_that_depend_on_each_other_are_kept(monkeypatch):
    a, b, c = (
        SimpleNamespace(op=op, formula=needs, declared=SimpleNamespace(source=op))
        for op, needs in [("A", "B"), ("B", "A"), ("C", "D")]
    )
    monkeypatch.setattr(modernize, "rules", lambda *_: [a, b, c])
    monkeypatch.setattr(formula, "size", lambda _: 1)
    monkeypatch.setattr(formula, "operators", set)
    assert modernize.in_order(registry.default(), 20) == [c, a, b]


FLOAT, INT = "tensor(float)", "tensor(int64)"


@pytest.mark.parametrize(
    ("texts", "takes"),
    [
        ([FLOAT, FLOAT], True),
        ([FLOAT, INT], False),
        ([FLOAT, None], False),
        (["tensor(string)", "tensor(string)"], False),
        ([FLOAT, FLOAT, FLOAT], False),
    ],
)
def test_an_operator_takes_the_types_of_its_schema(texts, takes):
    values = [SimpleNamespace(type_text=text) for text in texts]
    assert modernize._takes(schemas.schema("", "Add", 14), values) is takes


@pytest.mark.parametrize(
    ("types", "ranks", "shaped", "replaces"),
    [
        ((1, 1), (2, 2), True, True),
        ((1, 1), (2, 3), False, False),
        ((1, 1), (None, 3), False, True),
        ((1, 1), (2, None), False, True),
        ((1, 1), (2, None), True, False),
        ((1, 1), (None, None), True, True),
        ((1, 7), (2, 2), False, False),
        ((None, None), (2, 2), False, False),
    ],
)
def test_a_value_replaces_a_value_of_its_type_and_rank(types, ranks, shaped, replaces):
    old, new = (
        SimpleNamespace(elem_type_or_none=kind, rank_or_none=rank)
        for kind, rank in zip(types, ranks, strict=True)
    )
    assert modernize._replaces(old, new, shaped=shaped) is replaces


def test_the_plan_shows_it():
    planned = plan(model(PLAIN, 13), Request(20, modernize=True))
    assert [site.op for site in planned.modernized] == ["Gelu"]
    assert "modernized: Gelu x1 in place of 5 nodes" in str(planned)


def test_the_command_and_its_verification(tmp_path):
    source, result = tmp_path / "a.onnx", tmp_path / "b.onnx"
    onnx.save(
        model(ONE + NUMBERS + "{ " + GELU.replace("y =", "k =") + " y = Neg(k) }", 20), source
    )
    words = ["convert", str(source), "-o", str(result), "--modernize", "--verify"]
    done = CliRunner().invoke(main, [*words, "--output-format", "json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.output)
    assert [site["value"] for site in document["modernized"]] == ["k"]
    rows = {(row["output"], row["outcome"]) for row in document["verification"]["rows"]}
    assert rows == {("y", "equal"), ("k", "equal")}
    assert operators(onnx.load(result)) == ["Gelu", "Neg"]


def test_verification_sees_a_wrong_value_that_the_outputs_hide():
    from opshift.verify import verify

    a = model("(float[2,3] x) => (float[2,3] y) { k = Abs(x) z = Sub(k, k) y = Relu(z) }", 20)
    b = model("(float[2,3] x) => (float[2,3] y) { k = Neg(x) z = Sub(k, k) y = Relu(z) }", 20)
    assert verify(a, b).equal
    verification = verify(a, b, values=["k"])
    assert not verification.equal
    assert {row.output for row in verification.rows if row.outcome == "different"} == {"k"}


def test_settings_may_ask_for_it(tmp_path, monkeypatch):
    (tmp_path / "opshift.toml").write_text("[convert]\nmodernize = true\n")
    onnx.save(model(PLAIN, 13), tmp_path / "a.onnx")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["convert", "a.onnx", "-o", "b.onnx", "--to", "20"])
    assert done.exit_code == 0, done.output
    assert operators(onnx.load("b.onnx")) == ["Gelu"]


def test_a_runtime_without_the_operator_keeps_the_nodes():
    result = convert_with_report(model(PLAIN, 13), "onnxruntime==1.10", modernize=True)
    assert "Gelu" not in operators(result.model)
