# SPDX-License-Identifier: Apache-2.0
"""`opshift check` lists all faults of a model at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper
from opshift import (
    InvalidModel,
    OpshiftError,
    check,
    convert,
    convert_file,
    convert_version,
)
from opshift.cli.entry import main
from opshift.convert.api import convert_with_report
from opshift.convert.legal.findings import Phase
from opshift.convert.legal.rules import RULES
from opshift.opsets import elements, late_changes, schemas
from opshift.versions import installed_name
from text_models import model

GOOD = "(float[2,3] x) => (float[2,3] y) { a = Softmax<axis=1>(x) y = Neg(a) }"


def texts(proto, level="error"):
    return [finding.text for finding in check(proto).found if finding.level == level]


def changed(change, text=GOOD, **named):
    proto = model(text, **named)
    change(proto)
    return proto


def test_a_good_model():
    assert check(model(GOOD)).found == ()
    assert str(check(model(GOOD))) == "Nothing is wrong."


def test_several_at_once():
    def spoil(proto):
        proto.graph.node[0].input[0] = "nope"
        proto.graph.node.append(helper.make_node("Sofmax", ["x"], ["z"]))
        proto.graph.output.append(helper.make_tensor_value_info("q", 1, [1]))
        proto.graph.node.append(helper.make_node("Run", ["x"], ["r"], domain="acme"))

    messages = texts(changed(spoil))
    for part in (
        "reads 'nope'",
        "did you mean Softmax?",
        "no node writes output 'q' in graph 'g'",
        "'acme'",
    ):
        assert sum(part in text for text in messages) == 1, part


BRANCH = """(bool c, float[2] x) => (float[2] y) {
    h = Neg(x)
    y = If (c) <then_branch = t () => (float[2] h) { h = Abs(x) }, else_branch = e () => (float[2] k) { k = Neg(x) }>
}"""


def test_names_along_nested_scopes():
    assert texts(model(BRANCH)) == [
        "'h' in graph 't' is also defined in an outer graph; rename one"
    ]


def test_an_attribute_without_a_type():
    (text, *_) = texts(changed(lambda m: m.graph.node[0].attribute[0].ClearField("type")))[::-1]
    assert "attribute 'axis' of Softmax 'a' has no type" in text


def test_a_deprecated_operator_names_its_replacement():
    proto = model("(float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Upsample(x, s) }", 10)
    assert texts(proto) == [
        "Upsample (1 nodes in graph) is deprecated from ai.onnx 10 on; use Resize, or convert from 9"
    ]


def test_a_removed_operator_names_what_replaces_it():
    proto = model("(float[2] x) => (float[2] y) { y = Scale(x) }", 8)
    (text,) = texts(proto)[:1]
    assert text.startswith("Scale was removed from ai.onnx; a conversion writes")


def test_a_function_with_other_imports():
    text = """(float[2] x) => (float[2] y) { y = acme.Run(x) }
        <opset_import: ["" : 11], domain: "acme"> Run (v) => (w) { w = Softmax(v) }"""
    proto = model(text, 13, more=', "acme" : 1')
    assert any(
        "imports ai.onnx 11, but the model imports 13, in which Softmax differs" in t
        for t in texts(proto)
    )


def test_content_above_the_ir_version_and_names_are_warnings():
    def spoil(proto):
        proto.graph.node[0].metadata_props.add(key="k", value="v")
        proto.graph.node[0].name = "/a/b"
        proto.graph.initializer.append(numpy_helper.from_array(np.zeros(2, np.float32), "w.1"))
        proto.graph.initializer.add(name="v", data_type=TensorProto.FLOAT8E5M2, raw_data=b"")
        proto.graph.initializer[1].dims.append(0)

    proto = changed(spoil, ir=8)
    assert texts(proto) == []
    assert texts(proto, "warning") == [
        "element type or container float8e5m2 needs IR 9, but the model states IR 8; raise it with `ir_version=9`",
        "a node name is not a C identifier, such as '/a/b'",
        "a value name is not a C identifier, such as 'w.1'",
    ]
    assert texts(proto, "info") == [
        "IR 10 introduced metadata of a node; readers of IR 8 ignore it"
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.ClearField("graph"),
        lambda m: m.ClearField("opset_import"),
        lambda m: m.opset_import.add(domain="", version=3),
    ],
)
def test_what_cannot_be_opened_is_a_finding(change):
    assert len(texts(changed(change))) == 1


def test_what_only_the_checker_knows():
    proto = changed(lambda m: m.graph.output[0].type.tensor_type.shape.dim.add(dim_value=9))
    assert texts(proto)[0].startswith("onnx's checker rejects the model")


FUNCTION = """(float[2] x) => (float[2] y) { y = com.acme.Run(x) }
    <opset_import: ["" : 13], domain: "com.acme"> Run (v) => (w) { w = Softmax(v) }
    <opset_import: ["" : 13], domain: "com.acme"> Idle (v) => (w) { w = Neg(v) }"""


def _name_both_nodes(proto):
    for node in proto.graph.node:
        node.name = "n"


def _bind(proto, key, value):
    training = proto.training_info.add()
    training.algorithm.CopyFrom(
        onnx.parser.parse_graph("step () => (float[2,3] new) { new = Neg(y) }")
    )
    training.update_binding.add(key=key, value=value)


def _annotate(proto):
    note = proto.graph.quantization_annotation.add(tensor_name="a")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="lost")
    proto.graph.quantization_annotation.add(tensor_name="lost_too")


def _denote(proto):
    proto.graph.input[0].type.denotation = "PICTURE"
    proto.graph.output[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCHES"
    proto.graph.output[0].type.denotation = "IMAGE"


@pytest.mark.parametrize(
    ("change", "rule", "level", "said"),
    [
        (_name_both_nodes, "NODE_NAME_TWICE", "warning", ["several nodes of graph 'g' share the name 'n'"]),
        (lambda m: setattr(m, "domain", "acme"), "DOMAIN_NAME", "warning", ["domain 'acme' is not a reverse DNS name"]),
        (lambda m: m.opset_import.add(domain="com.-x", version=1), "DOMAIN_NAME", "warning", ["domain 'com.-x' is not a reverse"]),
        (lambda m: _bind(m, "nope", "new"), "TRAINING_BINDING", "error", ["update_binding sets 'nope', which is not an initializer"]),
        (lambda m: _bind(m, "nope", "x"), "TRAINING_BINDING", "error", ["sets 'nope'", "reads 'x', which is not an output of the algorithm"]),
        (lambda m: m.graph.value_info.add(name="lost"), "VALUE_INFO_OF_NOTHING", "warning", ["value_info of graph 'g' describes value 'lost'"]),
        (_annotate, "ANNOTATION_OF_NOTHING", "warning", ["names 'lost' as its SCALE_TENSOR", "describes 'lost_too', which is not defined"]),
        (_denote, "UNKNOWN_DENOTATION", "warning", ["the denotation 'DATA_BATCHES'", "value 'x' has the denotation 'PICTURE'"]),
        (lambda m: m.opset_import.add(domain="ai.onnx.ml", version=99), "UNKNOWN_IMPORT", "error", ["the model imports ai.onnx.ml 99"]),
    ],
)  # fmt: skip
def test_a_rule_that_onnx_does_not_check(change, rule, level, said):
    findings = [finding for finding in check(changed(change)).found if finding.rule == rule]
    assert {finding.level for finding in findings} == {level}
    for one, part in zip(findings, said, strict=True):
        assert part in one.text


def test_two_graphs_of_one_name():
    proto = model(
        BRANCH.replace("e ()", "t ()").replace("h = Abs", "k = Abs").replace("] h)", "] k)")
    )
    findings = check(proto).found
    assert [finding.text for finding in findings if finding.rule == "GRAPH_NAME"] == [
        "2 graphs are called 't'; give each its own name"
    ]


def test_a_function_that_nothing_calls_is_information():
    proto = model(FUNCTION, 13, more=', "com.acme" : 1')
    (finding,) = check(proto).found
    assert str(finding) == "info: function 'Idle' of 'com.acme' is never called; it can be removed"
    assert not check(proto).fails(strict=True)


def test_a_cycle_of_functions():
    text = FUNCTION.replace("Softmax(v)", "com.acme.Idle(v)").replace("Neg(v)", "com.acme.Run(v)")
    proto = model(text.replace(": 13]", ': 13, "com.acme" : 1]'), 13, more=', "com.acme" : 1')
    errors = [finding for finding in check(proto).found if finding.level == "error"]
    assert errors
    assert all("calls itself" in error.text for error in errors)
    assert any(
        "'Run' of 'com.acme' calls itself through 'Idle'; " in error.text for error in errors
    )


@pytest.mark.skipif(
    not hasattr(onnx.ModelProto(), "configuration"), reason="onnx 1.17 has no device configurations"
)
def test_a_device_configuration_that_points_at_nothing():
    def spoil(proto):
        proto.configuration.add(name="both", num_devices=2)
        for name in ("both", "none"):
            one = proto.graph.node[0].device_configurations.add(configuration_id=name)
            one.sharding_spec.add(tensor_name="x" if name == "both" else "lost")

    findings = [
        finding for finding in check(changed(spoil, ir=11)).found if "SKIP" not in finding.rule
    ]
    assert [finding.rule for finding in findings] == ["DEVICE_OF_NOTHING"] * 2
    assert "configuration 'none'" in findings[0].text
    assert "shards 'lost'" in findings[1].text


@pytest.mark.skipif(
    not hasattr(onnx.ModelProto(), "configuration"), reason="onnx 1.17 has no device configurations"
)
def test_a_sharding_over_a_device_that_the_configuration_does_not_have():
    """A number is a device of the configuration, or a key of the groups, which list devices."""

    def spoil(proto):
        proto.configuration.add(name="both", num_devices=2)
        one = proto.graph.node[0].device_configurations.add(configuration_id="both")
        spec = one.sharding_spec.add(tensor_name="x", device=[0, 7, -1, -2])
        spec.index_to_device_group_map.add(key=-1, value=[0, 1])
        spec.index_to_device_group_map.add(key=-3, value=[2])

    findings = [
        finding for finding in check(changed(spoil, ir=11)).found if "SKIP" not in finding.rule
    ]
    assert [finding.rule for finding in findings] == ["DEVICE_OF_NOTHING"] * 3
    for one, device in zip(findings, (-2, 2, 7), strict=True):
        assert f"over device {device}, but configuration 'both' has 2 devices" in one.text


@pytest.mark.skipif(
    not hasattr(onnx.ModelProto(), "configuration"), reason="onnx 1.17 has no device configurations"
)
def test_configurations_of_devices_are_complete_and_values_have_the_axes():
    def spoil(proto):
        for name, count, devices in (("two", 2, "abc"), ("two", 2, ""), ("", 1, ""), ("no", 0, "")):
            proto.configuration.add(name=name, num_devices=count, device=list(devices))
        one = proto.graph.node[0].device_configurations.add(configuration_id="two")
        for axis in (1, -2, 2, -3):
            one.sharding_spec.add(tensor_name="x").sharded_dim.add(axis=axis)

    findings = [
        finding for finding in check(changed(spoil, ir=11)).found if "SKIP" not in finding.rule
    ]
    assert [finding.text.partition(";")[0] for finding in findings] == [
        "2 configurations are called 'two'",
        "1 configuration without a name",
        "configuration 'two' has 2 devices but names 3",
        "configuration 'no' has 0 devices",
        "Softmax 'a' shards 'x' along axis 2, but the value has rank 2",
        "Softmax 'a' shards 'x' along axis -3, but the value has rank 2",
    ]
    assert {finding.rule for finding in findings} == {"DEVICE_CONFIGURATION", "SHARDED_AXIS"}


CALL = """(float[2,3] x) => (float[2,3] y) { y = com.acme.Run<axis = 1>(x) }
    <opset_import: ["" : 13], domain: "com.acme"> Run <axis> (v) => (w) {
        w = Softmax<axis: int = @axis>(v) }"""


def _read_another_attribute(proto):
    proto.functions[0].node[0].attribute[0].ref_attr_name = "axes"
    proto.graph.node[0].attribute.append(helper.make_attribute("size", 1))


def _call_with_too_much(proto):
    proto.graph.node[0].input.append("x")
    proto.graph.node[0].output.append("z")


def _give_a_default_too(proto):
    proto.functions[0].attribute_proto.append(helper.make_attribute("axis", 1))


def _describe_twice(proto):
    for _ in range(2):
        proto.graph.value_info.add().CopyFrom(helper.make_tensor_value_info("a", 1, [2, 3]))


def _map_of_numbers(proto):
    value = proto.graph.input.add(name="m").type.map_type
    value.key_type, value.value_type.tensor_type.elem_type = TensorProto.FLOAT, TensorProto.FLOAT


def _initialize_from_an_input(proto):
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros((2, 3), np.float32), "w"))
    training = proto.training_info.add()
    training.initialization.CopyFrom(
        onnx.parser.parse_graph("first (float[2,3] given) => (float[2,3] w0) { w0 = Neg(given) }")
    )
    training.initialization_binding.add(key="w", value="w0")


def _name_the_graph(proto):
    proto.graph.name = "7 not a name"


def _name_the_function(proto):
    proto.functions[0].name = proto.graph.node[0].op_type = "Run.1"


def _describe_an_image(proto):
    for key, value in {
        "image.bitmappixelformat": "Cmyk", "license_url": "MIT", "author": "A,,B",
        "Image.ColorSpaceGamma": "srgb", "model_author": "A, B", "License": "",
    }.items():  # fmt: skip
        proto.metadata_props.add(key=key, value=value)


@pytest.mark.parametrize(
    ("text", "change", "rule", "level", "said"),
    [
        (CALL, _read_another_attribute, "FUNCTION_ATTRIBUTE", "warning", ["sets attribute 'size'", "reads attribute 'axes' of function 'Run'"]),
        (CALL, _give_a_default_too, "FUNCTION_ATTRIBUTE", "warning", ["its attribute 'axis' twice, with and without a default"]),
        (CALL, _call_with_too_much, "FUNCTION_CALL", "error", ["has 2 inputs, but the called function", "has 2 outputs, but the called function"]),
        (GOOD, _describe_twice, "VALUE_INFO_TWICE", "warning", ["describes value 'a' twice"]),
        (GOOD, _map_of_numbers, "ELEMENT_TYPE", "error", ["value 'm' is a map with keys of FLOAT"]),
        (GOOD, _initialize_from_an_input, "TRAINING_INPUT", "error", ["training_info[0] has input 'given'"]),
        (GOOD, _name_the_graph, "GRAPH_IDENTIFIER", "warning", ["a graph name is not a C identifier, such as '7 not a name'"]),
        (CALL, _name_the_function, "GRAPH_IDENTIFIER", "warning", ["a function name is not a C identifier, such as 'Run.1'"]),
        (GOOD, _describe_an_image, "METADATA_FORM", "info", ["'image.bitmappixelformat' is 'Cmyk'; ONNX defines it as one of Gray8", "'license_url' is 'MIT'; ONNX defines it as a URL", "'author' is 'A,,B'"]),
    ],
)  # fmt: skip
def test_more_that_the_messages_of_onnx_ask_for(text, change, rule, level, said):
    proto = model(text, 13, more=', "com.acme" : 1')
    assert check(proto).found == ()
    change(proto)
    findings = [finding for finding in check(proto).found if finding.rule == rule]
    assert {finding.level for finding in findings} == {level}
    for one, part in zip(findings, said, strict=True):
        assert part in one.text


@pytest.mark.skipif(
    not hasattr(onnx.NodeProto(), "metadata_props"), reason="this onnx has no metadata of nodes"
)
def test_keys_of_metadata_are_distinct():
    def spoil(proto):
        for value in ("1", "2"):
            proto.graph.node[0].metadata_props.add(key="k", value=value)
            proto.graph.node[1].metadata_props.add(key=f"k{value}", value=value)

    findings = check(changed(spoil, ir=10)).found
    assert [(finding.rule, finding.text) for finding in findings] == [
        ("METADATA_TWICE", "the metadata of Softmax 'a' has 2 entries 'k'; keep one")
    ]


def test_findings_of_the_source_are_noted():
    def spoil(proto):
        _name_both_nodes(proto)
        proto.domain = "acme"

    proto = changed(spoil, opset=13)
    assert convert(proto, 12).report.notes == (
        "the model broke this rule before the conversion: domain 'acme' is not a reverse DNS name; use a name such as com.acme",
    )
    notes = convert(proto, 12, check="full").report.notes
    assert any(
        note.startswith(
            "the model broke this rule before the conversion: several nodes of graph 'g'"
        )
        for note in notes
    )


def test_what_is_inlined_has_names_of_its_own():
    """After two calls of a function with a subgraph are inlined, the rules find no fault."""
    text = """(bool c, float[2,3] x) => (float[2,3] y) { a = com.acme.Run(c, x) y = com.acme.Run(c, a) }
        <opset_import: ["" : 13], domain: "com.acme"> Run (c, v) => (w) {
            s = Softmax(v)
            w = If (c) <then_branch = t () => (h) { h = Abs(s) }, else_branch = e () => (k) { k = Neg(s) }>
        }"""
    proto = model(text, 13, more=', "com.acme" : 1')
    for number, node in enumerate((*proto.functions[0].node, *proto.graph.node)):
        node.name = f"/n.{number % 2}"
    after = convert_version(proto, 11, ir_version=6)
    assert not after.functions
    assert check(after).beyond(check(proto)) == ()


def test_the_command(tmp_path):
    onnx.save(changed(lambda m: setattr(m.graph.node[0], "name", "a/b")), tmp_path / "m.onnx")
    words = ["check", f"{tmp_path}/m.onnx"]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert CliRunner().invoke(main, [*words, "--strict"]).exit_code == 1
    raw = CliRunner().invoke(main, [*words, "--output-format", "json"]).stdout
    assert json.loads(raw)["findings"][0]["level"] == "warning"
    onnx.save(changed(lambda m: m.graph.node[0].input.__setitem__(0, "q")), tmp_path / "m.onnx")
    assert CliRunner().invoke(main, words).exit_code == 1


def test_a_conversion_notes_what_was_broken_and_breaks_nothing(tmp_path):
    proto = model(BRANCH.replace("(float[2] h) { h = Abs(x) }", "(float[2] z) { z = Abs(x) }"), 12)
    branch = proto.graph.node[1].attribute[0].g
    branch.initializer.append(numpy_helper.from_array(np.zeros(2, np.float32), "h"))
    onnx.save(proto, tmp_path / "m.onnx")
    report = convert_file(tmp_path / "m.onnx", tmp_path / "o.onnx", 13)
    assert report.notes[0] == (
        "the model broke this rule before the conversion: 'h' in graph 't' is also defined in an outer graph; rename one"
    )


def test_every_rule_and_phase_is_documented():
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "howto" / "check.md").read_text("utf-8")
    of_steps = (Phase.BEFORE_STEP, Phase.AFTER_STEP)
    assert not [
        rule.code for rule in RULES if rule.phase not in of_steps and f"`{rule.code}`" not in page
    ]
    assert len({rule.code for rule in RULES}) == len(RULES)
    phases = (docs / "explain" / "architecture.md").read_text("utf-8")
    assert not [phase.name for phase in Phase if f"| `{phase.name}` |" not in phases]
    assert not [phase for phase in Phase if all(rule.phase is not phase for rule in RULES)]


ILLEGAL = {
    "MISSING_IMPORT": "(float[2,3] x) => (float[2,3] y) { y = acme.Run(x) }",
    "DEFINITION": "(float[2,3] x) => (float[2,3] y) { y = Neg(a) a = Softmax<axis=1>(b) b = Neg(a) }",
    "OPERATOR": "(float[2,3] x) => (float[2,3] y) { a = Softmax<axes=1>(x) y = Neg(a) }",
    "OPERATOR_FLAW": "(float[2,2,2] x, float[2,2] b) => (y) { y = Gemm(x, b) }",
}


@pytest.mark.parametrize("rule", ILLEGAL)
def test_check_and_convert_apply_one_list(rule):
    """If a conversion rejects a model, `opshift check` finds the same fault under the same code."""
    proto = model(ILLEGAL[rule], 13)
    findings = [finding for finding in check(proto).found if finding.rule == rule]
    assert findings
    if rule != "OPERATOR_FLAW":  # which is asked only after a failure
        with pytest.raises(InvalidModel) as refused:
            convert_version(proto, 12)
        assert findings[0].text in str(refused.value)


def test_a_conversion_leaves_out_a_rule_that_is_not_in_the_list(monkeypatch):
    proto = model(ILLEGAL["MISSING_IMPORT"], 13)
    left = tuple(rule for rule in RULES if rule.code != "MISSING_IMPORT")
    monkeypatch.setattr("opshift.convert.legal.rules.RULES", left)
    assert not [finding for finding in check(proto).found if finding.rule == "MISSING_IMPORT"]
    with pytest.raises(OpshiftError) as refused:
        convert_version(proto, 12)
    assert "add an opset_import for it" not in str(refused.value)


@pytest.mark.parametrize("ir", [1, 2])
def test_ir_1_and_2_are_read_as_a_conversion_reads_them(ir):
    proto = model(GOOD, 5, ir=ir)
    del proto.opset_import[:]
    for node in proto.graph.node:
        for attribute in node.attribute:
            attribute.ClearField("type") if ir == 1 else None
    before = proto.SerializeToString()
    findings = check(proto)
    assert {finding.rule for finding in findings.found} == {"OLD_IR"}
    assert convert_version(proto, 7).ir_version >= 3
    assert proto.SerializeToString() == before


LOST = [
    (key, change)
    for key, changes in late_changes.table().items()
    for change in changes
    if change.kind == "lost" and change.parameter[0] == "input"
]


@pytest.mark.parametrize(("key", "change"), LOST, ids=[op for (_, op, _), _ in LOST])
def test_a_type_that_a_release_of_onnx_removed_names_the_release(key, change):
    domain, op, since = key
    schema = schemas.schema(domain, op, since)
    if schema is None or set(change.types) <= set(schema.input_at(change.parameter[1]).types):
        pytest.skip("the installed onnx is older than the change")
    for kind in sorted(change.types):
        inputs = [
            helper.make_tensor_value_info(
                f"i{i}",
                elements.T[kind[7:-1].upper()] if i == change.parameter[1] else TensorProto.FLOAT,
                [1, 1, 2, 2],
            )
            for i in range(schema.min_input)
        ]
        node = helper.make_node(op, [input_.name for input_ in inputs], ["y"], domain=domain)
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph([node], "g", inputs, [output])
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, since)])
        proto.ir_version = 8
        told = [finding.text for finding in check(proto).found if finding.rule == "INPUT_TYPE"]
        assert any(f"onnx {change.release} removed this type from {op}-{since}" in t for t in told)


def test_no_type_that_is_accepted_now_is_called_removed():
    for domain, op, since in late_changes.table():
        schema = schemas.schema(domain, op, since)
        for at, one in enumerate(schema.inputs if schema is not None else ()):
            for kind in one.types:
                release = late_changes.lost(domain, op, since, at, kind)
                assert release is None or not installed_has(release)


def installed_has(release):
    """Whether the installed onnx is that release or a later one."""
    have, wanted = (tuple(map(int, one.split(".")[:2])) for one in (installed_name(), release))
    return have >= wanted


@pytest.mark.parametrize("more", ["", "<left_window_size=2>"])
@pytest.mark.parametrize("opset", [24, 25, 26, 27, 28])
def test_an_operator_with_two_meanings_is_noted(opset, more):
    """onnx 1.23 added Attention-25 to the opsets that 1.20 and later had published before."""
    if not installed_has("1.23") or (opset < 25 and more):
        pytest.skip("the opset does not have this form")
    proto = model(
        "(float[1,2,4,8] q, float[1,2,4,8] k, float[1,2,4,8] v) => (float[1,2,4,8] y)"
        f" {{ y = Attention{more}(q, k, v) }}",
        opset,
    )
    findings = [finding for finding in check(proto).found if finding.rule == "TWO_MEANINGS"]
    assert len(findings) == (opset in (25, 26, 27) and not more)
    for to in (24, opset):
        report = convert_with_report(proto, to).report
        noted = {note for note in report.notes if "two meanings" in note}
        assert noted == {finding.text for finding in findings}
    if opset == 24:
        report = convert_with_report(proto, 26).report
        assert any("Attention-25 from onnx 1.23 on" in note for note in report.notes)
