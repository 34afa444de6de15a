# SPDX-License-Identifier: Apache-2.0
"""Guards that follow from two schemas: a node passes if the new schema can express it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from onnx import NodeProto, helper
from opshift.author import fit
from opshift.author.env import TypesOnly
from opshift.author.node import Node
from opshift.codes.refusals import Why
from opshift.convert import guard
from opshift.convert.guard import Guard, derive
from opshift.errors import InvalidModel, Refusal
from opshift.opsets import schemas
from opshift.opsets.schema import ANY, Attribute, Param, Schema

FLOAT, DOUBLE, HALF = "tensor(float)", "tensor(double)", "tensor(float16)"
BOTH = frozenset({FLOAT, DOUBLE})
ONLY = frozenset({FLOAT})
NUMBERS = {FLOAT: 1, DOUBLE: 11, HALF: 10}


def param(name: str, types: frozenset[str] = BOTH, *, variadic: bool = False) -> Param:
    return Param(name, types, "T", optional=False, variadic=variadic)


def schema(
    inputs: tuple[Param, ...] = (), outputs: tuple[Param, ...] = (), since: int = 1,
    most: tuple[int | None, int | None] = (None, None), **defaults: object,
) -> Schema:  # fmt: skip
    """Returns the operator `Made` with these parameters; `most` limits variadic ones."""
    attributes = {n: Attribute(n, 2, required=False, default=d) for n, d in defaults.items()}
    counts = [
        len(p) if given is None else given for p, given in zip((inputs, outputs), most, strict=True)
    ]
    positions = [{p.name: i for i, p in enumerate(params)} for params in (inputs, outputs)]
    return Schema(
        "", "Made", since, False, inputs, outputs, attributes, 0, counts[0], 0, counts[1], False,
        *positions,
    )  # fmt: skip


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    def made(old: Schema | None, new: Schema | None) -> Guard | None:
        monkeypatch.setattr(schemas, "schema", lambda *key: {1: old, 2: new}[key[-1]])
        derive.cache_clear()
        return derive("", "Made", 1, 2)

    yield made
    derive.cache_clear()


def node(proto: NodeProto, guard: Guard, **types: str) -> Node:
    known = {
        name: helper.make_tensor_type_proto(NUMBERS[text], None) for name, text in types.items()
    }
    return Node(proto, guard.old, TypesOnly(known))


def refusal(check: object, *arguments: object) -> tuple[Why, str] | None:
    """Returns the code and the message of a refusal."""
    try:
        check(*arguments)  # type: ignore[operator]
    except Refusal as found:
        return found.why, str(found)
    return None


# -- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "lost"),
    [
        ((param("a"), param("b")), {}),
        ((param("a", ONLY), param("b")), {"a": {DOUBLE}}),
        ((param("a"), param("b", ONLY)), {"b": {DOUBLE}}),
        ((param("b", ONLY), param("a")), {"b": {DOUBLE}}),
        ((param("a"), param("other", ONLY)), {"b": {DOUBLE}}),
        ((param("other", ONLY), param("a")), {}),
        ((param("a", ONLY),), {"a": {DOUBLE}}),
        ((param("a", BOTH | {HALF}), param("b")), {}),
        ((), {}),
    ],
)
def test_a_type_is_lost_if_the_parameter_of_that_name_or_else_of_that_place_lacks_it(
    derived, new, lost
):
    old = param("a"), param("b")
    assert derived(schema(old), schema(new)).lost == lost
    assert derived(schema((), old), schema((), new)).lost == lost


def test_an_input_and_an_output_of_one_name_lose_the_types_of_both(derived):
    old = schema((param("x", BOTH | {HALF}),), (param("x", BOTH | {HALF}),))
    new = schema((param("x", BOTH),), (param("x", ONLY | {HALF}),))
    assert derived(old, new).lost == {"x": {HALF, DOUBLE}}


def test_lost_types_count_if_all_their_parts_can_occur(derived):
    texts = frozenset({DOUBLE, "seq(tensor(double))"})
    guard = derived(schema((param("x", texts | ONLY),)), schema((param("x", ONLY),)))
    assert guard.lost_in(frozenset({"float"})) == frozenset()
    assert guard.lost_in(frozenset({"double"})) == {DOUBLE}
    assert guard.lost_in(frozenset({"double", "seq"})) == texts


@pytest.mark.parametrize("is_output", [False, True])
@pytest.mark.parametrize(
    ("known", "why"),
    [({"v": FLOAT}, None), ({"v": DOUBLE}, Why.TYPE_NOT_AVAILABLE), ({}, Why.NEEDS_TYPE)],
)
def test_a_value_of_a_lost_type_is_refused_and_one_of_an_unknown_type_too(
    derived, is_output, known, why
):
    params = [(param("x"),), (param("x", ONLY),)]
    guard = derived(
        *(schema((), p, n) if is_output else schema(p, (), n) for n, p in enumerate(params, 1))
    )
    proto = NodeProto(op_type="Made", **{"output" if is_output else "input": ["v"]})
    message = refusal(guard.check_types, node(proto, guard, **known), frozenset({DOUBLE}))
    assert (message and message[0]) == why
    assert message is None or ("'v'" in message[1] and "Made-2" in message[1])
    assert refusal(guard.check_types, node(proto, guard, **known), frozenset({HALF})) is None


def test_a_value_of_unknown_type_has_the_type_of_another_one_with_its_variable(derived):
    """A variadic parameter need not have one type for all its values."""
    guard = derived(
        schema((param("x", ONLY), param("y"))), schema((param("x", ONLY), param("y", ONLY)))
    )
    proto = NodeProto(op_type="Made", input=["a", "b"])
    lost = frozenset({DOUBLE})
    assert refusal(guard.check_types, node(proto, guard, a=FLOAT), lost) is None
    assert refusal(guard.check_types, node(proto, guard), lost) is not None
    guard = derived(
        schema((param("x", variadic=True),), most=(ANY, None)),
        schema((param("x", ONLY, variadic=True),), most=(ANY, None)),
    )
    message = refusal(guard.check_types, node(proto, guard, a=FLOAT), lost)
    assert message is not None
    assert message[0] is Why.NEEDS_TYPE


def test_values_without_a_name_or_a_parameter_have_no_type_to_check(derived):
    guard = derived(schema((param("x"), param("y"))), schema((param("x", ONLY), param("y", ONLY))))
    proto = NodeProto(op_type="Made", input=["", "b", "beyond"])
    assert refusal(guard.check_types, node(proto, guard, b=FLOAT), frozenset({DOUBLE})) is None


# -- attributes, inputs and outputs --------------------------------------------------------------


def test_equal_schemas_leave_no_structure_to_check(derived):
    same = schema((param("x"),), (param("y"),), alpha=1)
    assert not derived(same, same).structural
    more = schema((param("x"), param("z")), (param("y"), param("w")), alpha=1, beta=2)
    assert not derived(same, more).structural


def test_an_attribute_that_the_new_schema_lacks_may_only_have_its_default(derived):
    guard = derived(schema(alpha=1, mode="b", other=3), schema(other=4))
    assert guard.structural
    for given, passes, touched in (
        ({}, True, False), ({"other": 9}, True, False), ({"alpha": 1}, True, True),
        ({"alpha": 2}, False, True), ({"mode": "b"}, True, True), ({"mode": "c"}, False, True),
    ):  # fmt: skip
        made = node(helper.make_node("Made", [], [], **given), guard)
        assert (refusal(guard.check_structure, made) is None) == passes, given
        assert guard.touches(made) == touched
    referring = helper.make_node("Made", [], [])
    referring.attribute.add(name="alpha", type=2, ref_attr_name="of_the_function")
    message = refusal(guard.check_structure, node(referring, guard))
    assert message is not None
    assert message[0] is Why.NOT_EXPRESSIBLE


def test_an_input_that_the_new_schema_lacks_may_only_be_left_out(derived):
    guard = derived(schema((param("x"), param("y"))), schema((param("x"),)))
    assert guard.structural
    for inputs, passes, touched in (
        (["a"], True, False), (["a", ""], True, True), (["a", "b"], False, True),
    ):  # fmt: skip
        made = node(NodeProto(op_type="Made", input=inputs), guard)
        assert (refusal(guard.check_structure, made) is None) == passes, inputs
        assert guard.touches(made) == touched
    none = derived(schema((param("x"),)), schema())
    assert none.touches(node(NodeProto(op_type="Made", input=["a"]), none))


def test_an_input_that_another_place_has_is_not_lost(derived):
    guard = derived(schema((param("x"), param("y"))), schema((param("y"),)))
    assert guard.lost_inputs == frozenset()


@pytest.mark.parametrize(
    ("old", "new", "fewer"),
    [(2, 1, True), (1, 1, False), (1, 2, False), (ANY, 1, True), (ANY, 0, True), (1, 0, True),
     (ANY, ANY, False), (1, ANY, False), (0, 0, False)],
)  # fmt: skip
def test_outputs_are_lost_if_the_new_schema_has_fewer(derived, old, new, fewer):
    guard = derived(
        schema((), (param("y"),), most=(0, old)), schema((), (param("y"),), most=(0, new))
    )
    assert (guard.fewer_outputs, guard.structural) == (fewer, fewer)
    for count in range(1, 4):
        names = [*"abc"[:count]]
        made = node(NodeProto(op_type="Made", output=names), guard)
        lost = 0 <= new < count
        assert (refusal(guard.check_structure, made) is not None) == lost
        assert not fewer or guard.touches(made) == lost


def test_an_output_without_a_name_is_left_out(derived):
    guard = derived(schema((), (param("x"), param("y"))), schema((), (param("x"),)))
    made = node(NodeProto(op_type="Made", output=["a", ""]), guard)
    assert refusal(guard.check_structure, made) is None
    assert guard.touches(made)


def test_no_guard_without_two_schemas_that_state_their_parameters(derived):
    stated = schema((param("x"),))
    unstated = dataclasses.replace(stated, stated=False)
    assert derived(stated, stated) is not None
    for old, new in ((None, stated), (stated, None), (unstated, stated), (stated, unstated)):
        assert derived(old, new) is None


@pytest.mark.parametrize(
    ("is_open", "documented", "fits"),
    [(None, True, True), (False, False, True), (True, False, False), (False, True, False)],
)
def test_only_schemas_that_onnx_does_not_check_are_checked_here(
    is_open, documented, fits, monkeypatch
):
    """A fault in the node makes the model invalid; an element type that does not fit is refused."""
    known = None if is_open is None else SimpleNamespace(open=is_open, domain="com.acme")
    env = SimpleNamespace(type=lambda name, part: helper.make_tensor_type_proto(1, [2]))
    node: Any = SimpleNamespace(schema=known, env=env, proto="node", op="Run")
    kinds: list[str | None] = []
    monkeypatch.setattr(schemas, "is_documented", lambda domain: documented)
    monkeypatch.setattr(fit, "faults", lambda proto, schema, type_of: ["Run has no input"])
    misfit = SimpleNamespace(name="x", kind="tensor(float)")
    if fits:
        guard.require_fit(node)
        return
    with pytest.raises(InvalidModel, match="Run has no input"):
        guard.require_fit(node)
    monkeypatch.setattr(
        fit, "faults", lambda proto, schema, type_of: kinds.append(type_of("x")) or []
    )
    monkeypatch.setattr(fit, "unfit_types", lambda *_: [])
    guard.require_fit(node)
    assert kinds == ["tensor(float)"]
    monkeypatch.setattr(fit, "unfit_types", lambda *_: [misfit])
    with pytest.raises(Refusal, match="Run reads 'x' of type tensor"):
        guard.require_fit(node)
