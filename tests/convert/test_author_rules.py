# SPDX-License-Identifier: Apache-2.0
"""Declarations of authors apply only to nodes of their operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace

import opshift
import pytest
from checked import assert_finds, checked
from onnx import ModelProto, helper, parser
from opshift.adapter import Why
from opshift.author import registry
from opshift.author.traits import Differs, Flaw, Illegal, differs, flaw, illegal
from opshift.convert.legal import author_rules
from opshift.convert.legal.findings import Checked, Unjudged
from opshift.errors import Refusal
from text_models import model

TEXT = "(float[2] x) => (float[2] y) { a = Elu<alpha=2.0>(x) b = Elu(a) c = Neg(b) y = Abs(c) }"


def subject(*traits: Illegal | Flaw | Differs, text: str = TEXT, more: str = "") -> Checked:
    """A model, and the only declarations that apply to it."""

    def declared(kind: type) -> dict:
        found: dict = {}
        for trait in traits:
            for op in trait.ops if isinstance(trait, kind) else ():
                found[trait.domain, op] = (*found.get((trait.domain, op), ()), trait)
        return found

    known = SimpleNamespace(traits=declared, rules=registry.default().rules)
    opened = checked(model(text, 13, more=more))
    opened.facts.adapters = known
    return dataclasses.replace(opened, adapters=known)


@illegal("Elu")
def alpha_is_two(given, inputs, outputs):
    return f"alpha is {given['alpha']:.0f}" if given.get("alpha") == 2.0 else None


@illegal("Elu")
def one_of_each(given, inputs, outputs):
    return f"{inputs} and {outputs}"


def test_each_declaration_is_asked_about_the_attributes_of_each_node():
    assert_finds(author_rules.attributes, subject(alpha_is_two), "Elu 'a': alpha is 2")
    both = "Elu 'a': 1 and 1", "Elu 'a': alpha is 2", "Elu 'b': 1 and 1"
    assert_finds(author_rules.attributes, subject(one_of_each, alpha_is_two), *both)
    assert_finds(author_rules.attributes, subject())


def test_the_attributes_that_calls_give_are_judged_once():
    text = """(float[2] x) => (float[2] y) { a = f.F<s=2.0>(x) y = f.F<s=3.0>(a) }
        <domain: "f", opset_import: ["": 13]> F <s> (a) => (b) { b = Elu<alpha: float = @s>(a) }"""
    made = subject(alpha_is_two, one_of_each, text=text, more=', "f": 1')
    assert_finds(author_rules.attributes, made, "Elu 'b': alpha is 2", "Elu 'b': 1 and 1")


@flaw("Elu Neg")
def says_its_name(node):
    return f"it is {node.op}"


@flaw("Elu")
def needs_more(node):
    raise Refusal(Why.NEEDS_RANK, "the rank is unknown")


@flaw("Neg")
def fails(node):
    raise ZeroDivisionError


def test_a_flaw_is_found_in_each_node_of_its_operators():
    told = "Elu 'a': it is Elu", "Elu 'b': it is Elu", "Neg 'c': it is Neg"
    assert_finds(author_rules.flaws, subject(says_its_name, needs_more), *told)


def test_a_declaration_that_fails_leaves_its_node_unjudged():
    *told, last = author_rules.flaws(subject(says_its_name, fails))
    assert [isinstance(one, str) for one in told] == [True] * 3
    assert isinstance(last, Unjudged)
    assert last.node == "Neg 'c'"


@pytest.mark.parametrize("node", ["Elu(x, x)", "Elu<beta=1>(x)", "own.Elu(x)"])
def test_no_declaration_sees_a_node_without_the_form_of_its_schema(node):
    text = f"(float[2] x) => (float[2] y) {{ y = {node} }}"
    assert_finds(author_rules.flaws, subject(says_its_name, text=text, more=', "own": 1'))


@differs("Elu Neg")
def differs_always(node):
    return "it differs"


@pytest.mark.parametrize(
    ("goal", "named"),
    [({"": 13}, []), ({"": 12}, ["Neg"]), ({"": 5}, ["Elu", "Elu", "Neg"]), ({"own": 2}, []), ({}, [])],
)  # fmt: skip
def test_a_report_names_the_nodes_whose_operator_changes_on_the_way(goal, named):
    made = subject(differs_always)
    found = [*author_rules.differing(made.facts, goal)]
    assert [text.partition(" ")[0] for text in found] == named
    assert all(author_rules.DIFFERS in one and one.endswith("it differs") for one in found)


def test_a_report_names_the_nodes_that_cannot_be_judged():
    @differs("Neg")
    def broken(node):
        raise ZeroDivisionError

    made = subject(broken)
    (text,) = author_rules.differing(made.facts, {"": 12})
    assert text.startswith("Neg 'c' cannot be judged")


def test_an_operator_without_a_schema_is_shown_to_no_declaration():
    look: Callable = pytest.fail
    made = subject(
        flaw("Elu", domain="own")(look),
        text=TEXT.replace("Elu(a)", "own.Elu(a)"),
        more=', "own": 1',
    )
    assert_finds(author_rules.flaws, made)


# -- the values of a function's attributes ---------------------------------------------------------


def test_values_behind_references_are_checked_like_written_ones() -> None:
    def einsum(*, default: bool, levels: int = 1, left_out: bool = True) -> ModelProto:
        node = helper.make_node("Einsum", ["a"], ["b"])
        node.attribute.add(name="equation", ref_attr_name="eq", type=3)
        imports = [helper.make_opsetid("", 13), helper.make_opsetid("f", 1)]
        given = {"attribute_protos": [helper.make_attribute("eq", "i.j->i")]}
        bound = given if default else {"attributes": ["eq"]}
        functions = [helper.make_function("f", "F0", ["a"], ["b"], [node], imports, **bound)]
        for i in range(1, levels):
            call = helper.make_node(f"F{i - 1}", ["a"], ["b"], domain="f")
            call.attribute.add(name="eq", ref_attr_name="eq", type=3)
            functions.append(
                helper.make_function("f", f"F{i}", ["a"], ["b"], [call], imports, attributes=["eq"])
            )
        own = {} if default and left_out else {"eq": "ij->i" if default else "i.j->i"}
        call = helper.make_node(f"F{levels - 1}", ["x"], ["y"], domain="f", **own)
        proto = parser.parse_model(
            '<ir_version: 9, opset_import: ["": 13, "f": 1]> g (float[3,4] x) => (float y) { }'
        )
        proto.graph.node.append(call)
        proto.functions.extend(functions)
        return proto

    for made in (einsum(default=True), einsum(default=False), einsum(default=False, levels=4)):
        findings = [
            finding for finding in opshift.check(made).found if finding.rule == "ATTRIBUTE_VALUE"
        ]
        assert len(findings) == 1
        with pytest.raises(opshift.InvalidModel, match="not an ellipsis"):
            opshift.convert_version(made, 12)
    fine = einsum(default=True, left_out=False)
    assert not [
        finding for finding in opshift.check(fine).found if finding.rule == "ATTRIBUTE_VALUE"
    ]


@pytest.mark.parametrize(
    ("slope", "is_right"),
    [("[3]", True), ("[2, 1]", True), ("[1]", True), ("[2]", False), ("[1, 2, 3]", False)],
)
def test_slopes_of_prelu_broadcast_in_one_direction(slope, is_right):
    sized = model(f"(float[2, 3] x, float{slope} s) => (float[N, M] y) {{ y = PRelu(x, s) }}", 13)
    assert_finds(author_rules.flaws, checked(sized), *["do not broadcast"] * (not is_right))
