# SPDX-License-Identifier: Apache-2.0
"""The rules about functions of a model and their calls."""

from __future__ import annotations

import pytest
from checked import assert_finds, checked
from onnx import helper
from opshift.convert.legal import function_rules as rules
from opshift.model.document import Document
from text_models import model

TEXT = """(float[2] x) => (float[2] y) {{ y = {call} }}
    <domain: "f", opset_import: ["": 13, "f": 1]> F <{declared}> (a, b) => (c) {{ {body} }}
    <domain: "f", opset_import: ["": 13]> G (a) => (c) {{ c = Neg(a) }}
    <domain: "f", opset_import: ["": 13, "f": 1]> H (a) => (c) {{ c = f.G(a) }}"""


def document(call="f.F(x)", declared="alpha", body="c = f.G(a)") -> Document:
    text = TEXT.format(call=call, declared=declared, body=body).replace("F <>", "F")
    return checked(model(text, 13, more=', "f": 1')).document


def found(rule, of: Document) -> list[tuple[str, ...]]:
    listed = ([names] if isinstance(names, str) else names for names, _ in rule(of))
    return [tuple(sorted(names)) for names in listed]


@pytest.mark.parametrize(
    ("call", "patterns", "names"),
    [
        ("f.F()", [], []), ("f.F(x, x)", [], []), ("Max(x, x, x)", [], []),
        ("f.F(x, x, u, v)", ["F 'y' has 4 inputs, .* has 2;"], [("u", "v")]),
    ],
)  # fmt: skip
def test_a_call_has_at_most_the_inputs_of_its_function(call, patterns, names):
    assert_finds(rules.calls, document(call), *patterns)
    assert found(rules.calls, document(call)) == names


def test_a_call_has_at_most_the_outputs_of_its_function():
    of = document()
    of.model.graph.node[0].output.append("z")
    assert_finds(rules.calls, of, "F 'y' has 2 outputs, .* has 1;")
    of.model.functions[0].node[0].output.append("z")
    assert_finds(rules.calls, of, "F 'y'", "G 'c' has 2 outputs")


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("f.F(x)", []), ("f.F<alpha=1>(x)", []), ("f.F<beta=1>(x)", []),
        ("f.F<gamma=1, delta=2, alpha=1>(x)", [("delta",), ("gamma",)]),
        ("Relu<gamma=1>(x)", []),
    ],
)  # fmt: skip
def test_a_call_gives_attributes_that_its_function_declares(call, names):
    of = document(call, declared="alpha, beta: float = 2.0")
    assert found(rules.attributes, of) == names


@pytest.mark.parametrize(
    ("declared", "names"),
    [("alpha", []), ("alpha: float = 1.0", []), ("beta", [("alpha",)]), ("", [("alpha",)])],
)
def test_a_node_reads_attributes_that_its_function_declares(declared, names):
    of = document(declared=declared, body="c = Elu<alpha: float = @alpha>(a)")
    assert found(rules.attributes, of) == names


def test_an_attribute_is_declared_once():
    of = document()
    of.model.functions[0].attribute_proto.append(helper.make_attribute("alpha", 1.0))
    assert_finds(rules.attributes, of, "'F' declares its attribute 'alpha' twice, with and")


def test_a_function_is_used_if_a_graph_calls_it_alone_or_by_way_of_others():
    of = document()
    assert rules.never_called(of) == [("f", "H", "")]
    assert rules.called(of) == [("f", "F", ""), ("f", "G", "")]
    assert_finds(rules.unused, of, "function 'H' of 'f' is never called")
    assert found(rules.unused, of) == [("f.H",)]
    of = document("Neg(x)")
    assert len(rules.never_called(of)) == 3
    assert rules.called(of) == []
    of = document("f.H(f.G(x))".replace("f.G(x)", "x"))
    assert rules.never_called(of) == [("f", "F", "")]


def test_a_function_of_the_standard_domain_is_named_with_it():
    of = checked(
        model(
            '(float[2] x) => (float[2] y) { y = Neg(x) } <domain: "", opset_import: ["": 13]> F (a) => (c) { c = Neg(a) }',
            13,
        )
    ).document
    assert_finds(rules.unused, of, "'F' of 'ai.onnx' is never called")


def test_a_call_names_an_overload_that_the_model_has():
    of = document()
    assert_finds(rules.overloads, of)
    of.model.graph.node[0].overload = "o"
    assert_finds(rules.overloads, of, "F 'y' calls the overload 'o' of a function, which the model")
    of.model.functions[0].overload = "o"
    assert_finds(rules.overloads, checked(of.model).document)


def test_the_attributes_of_a_function_have_names_of_their_own():
    of = document()
    function = of.model.functions[0]
    function.attribute.extend(["", "a", "c"])
    function.attribute_proto.extend([helper.make_attribute("k", 1), helper.make_attribute("k", 2)])
    function.attribute_proto.add(name="n")
    assert_finds(
        rules.attributes,
        of,
        "'F' has 2 defaults for its attribute 'k'; keep one",
        "'F' has an attribute without a name",
        "'F' has an attribute and an input or output 'a'",
        "'F' has an attribute and an input or output 'c'",
        "the default of attribute 'n' of function 'F' has no type",
    )


def test_an_attribute_with_a_reference_has_no_value():
    of = document(body="c = Elu<alpha: float = @alpha>(a)")
    assert_finds(rules.references, of)
    of.model.functions[0].node[0].attribute[0].f = 2.0
    assert_finds(rules.references, of, "'alpha' of Elu 'c' refers .* and has a value; remove")


@pytest.mark.parametrize(
    ("call", "declared", "patterns"),
    [
        ("f.F<alpha: float = 1.0>(x)", "alpha", []),
        ("f.F<alpha: int = 1>(x)", "alpha", ["'alpha' of F 'y' is INT, but .* as FLOAT"]),
        ("f.F(x)", "alpha: float = 1.0", []),
        ("f.F(x)", "alpha: int = 1", ["default of attribute 'alpha' of function 'F' is INT, but"]),
    ],
)
def test_the_types_of_attributes_are_those_with_which_a_function_reads_them(
    call, declared, patterns
):
    of = document(call, declared, "c = Elu<alpha: float = @alpha>(a)")
    assert_finds(rules.references, of, *patterns)
