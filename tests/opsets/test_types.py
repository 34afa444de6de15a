# SPDX-License-Identifier: Apache-2.0
"""Types are read, compared and merged; a length that is not known is dropped."""

from __future__ import annotations

import pytest
from onnx import NodeProto, TypeProto, helper
from opshift.opsets import schemas, types
from opshift.opsets.elements import T

FLOAT, INT32, INT64 = T.FLOAT, T.INT32, T.INT64
tensor = helper.make_tensor_type_proto
sparse = helper.make_sparse_tensor_type_proto
sequence, optional = helper.make_sequence_type_proto, helper.make_optional_type_proto
UNKNOWN = TypeProto()
LIST = sequence(optional(tensor(FLOAT, [2, "n"])))
MAP = helper.make_map_type_proto(INT64, tensor(FLOAT, [2]))


@pytest.mark.parametrize(
    ("proto", "rank", "element", "text"),
    [
        (None, None, "", ""),
        (UNKNOWN, None, "", "a value of unknown type"),
        (tensor(FLOAT, None), None, "float", "tensor(float)"),
        (tensor(FLOAT, []), 0, "float", "tensor(float)[]"),
        (tensor(INT64, [2, "n", None]), 3, "int64", "tensor(int64)[2,n,?]"),
        (sparse(FLOAT, [2]), None, "sparse_tensor(float)", "sparse_tensor(float)"),
        (LIST, None, "seq(optional(tensor(float)))", "seq(optional(tensor(float)))"),
    ],
)
def test_a_type_has_a_rank_an_element_type_and_a_text(proto, rank, element, text):
    assert types.rank_of(proto) == rank
    assert types.element_of(proto) == element
    assert proto is None or types.shown_type(proto) == text


def test_a_length_is_a_number_a_symbol_or_unknown():
    proto = tensor(FLOAT, [0, 3, "n", None, -1])
    assert types.dims_of(proto) == (0, 3, "n", None, None)


def test_parts_are_listed_from_the_outside_to_the_inside():
    kinds = [part.WhichOneof("value") for part in types.parts_of(LIST)]
    assert kinds == ["sequence_type", "optional_type", "tensor_type"]
    assert [part.WhichOneof("value") for part in types.parts_of(MAP)] == ["map_type", "tensor_type"]
    assert [part.WhichOneof("value") for part in types.parts_of(UNKNOWN)] == [None]


@pytest.mark.parametrize("proto", [LIST, MAP, tensor(FLOAT, [2]), sparse(FLOAT, [2])])
def test_the_tensor_in_a_type_can_be_changed(proto):
    copy = TypeProto.FromString(proto.SerializeToString())
    (found,) = types.tensors_in(copy)
    found.elem_type = INT64
    assert "int64" in schemas.type_name(copy)


def test_lengths_are_removed_from_a_copy():
    proto = sequence(tensor(FLOAT, [2, "n"]))
    assert types.without_lengths(proto) == sequence(tensor(FLOAT, [None, None]))
    assert types.without_dims(proto, lambda dim: dim.dim_value == 2) == sequence(
        tensor(FLOAT, [None, "n"])
    )
    symbol = f"{types.LENGTH}3"
    assert types.without_symbols(tensor(FLOAT, [symbol, "n", 4])) == tensor(FLOAT, [None, "n", 4])
    assert proto == sequence(tensor(FLOAT, [2, "n"]))


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        ("Add", [tensor(FLOAT, []), None], {"T": "float"}),
        ("Add", [None, tensor(FLOAT, [])], {"T": "float"}),
        ("Add", [tensor(INT64, []), tensor(FLOAT, [])], {"T": "int64"}),
        ("Reshape", [None, tensor(INT64, [1])], {"T": "", "tensor(int64)": "int64"}),
        ("Relu", [tensor(FLOAT, []), tensor(INT64, [])], {"T": "float"}),  # one input too many
        ("Clip", [None, "", tensor(INT32, [])], {"T": "int32"}),
    ],
)
def test_each_type_variable_of_a_node_has_an_element_type(op, inputs, expected):
    names = ["" if proto == "" else f"x{i}" for i, proto in enumerate(inputs)]
    node = NodeProto(op_type=op, input=names, output=["y"])
    by_name = dict(zip(names, inputs, strict=True))
    schema = schemas.schema("", op, 20)
    assert types.elements_by_variable(node, schema, by_name.get) == expected


def test_a_type_variable_can_be_known_from_an_output():
    node = NodeProto(op_type="Cast", input=["x"], output=["y"])
    schema = schemas.schema("", "Cast", 20)
    by_name = {"x": tensor(FLOAT, []), "y": tensor(INT64, [])}
    assert types.elements_by_variable(node, schema, by_name.get) == {"T1": "float", "T2": "int64"}


@pytest.mark.parametrize(
    ("first", "second", "alike", "confirms"),
    [
        (tensor(FLOAT, [2]), tensor(FLOAT, [2]), True, True),
        (tensor(FLOAT, [2]), tensor(FLOAT, [3]), True, False),
        (tensor(FLOAT, [2]), tensor(FLOAT, ["n"]), True, True),
        (tensor(FLOAT, ["n"]), tensor(FLOAT, [2]), True, False),
        (tensor(FLOAT, [0]), tensor(FLOAT, [1]), True, False),
        (tensor(FLOAT, [2]), tensor(INT64, [2]), False, False),
        (tensor(FLOAT, [2]), tensor(FLOAT, [2, 2]), False, False),
        (tensor(FLOAT, None), tensor(FLOAT, [2]), True, False),
        (tensor(FLOAT, None), tensor(FLOAT, []), True, False),
        (tensor(FLOAT, [2]), tensor(FLOAT, None), True, True),
        (tensor(FLOAT, None), tensor(FLOAT, None), True, True),
        (UNKNOWN, tensor(FLOAT, None), True, True),
        (LIST, LIST, True, True),
        (LIST, tensor(FLOAT, [2]), False, False),
    ],
)
def test_types_agree_if_their_known_parts_are_equal(first, second, alike, confirms):
    assert types.alike(first, second) == types.alike(second, first) == alike
    assert types.confirms(first, second) == confirms


@pytest.mark.parametrize(
    ("proto", "complete", "vague", "small", "readable", "countable"),
    [
        (None, None, True, False, False, None),
        (UNKNOWN, False, False, False, False, False),
        (LIST, False, False, False, False, False),
        (tensor(FLOAT, None), False, True, False, False, False),
        (tensor(INT64, None), False, True, False, False, False),
        (tensor(FLOAT, ["n"]), False, False, False, False, False),
        (tensor(INT64, ["n"]), False, True, False, False, False),
        (tensor(T.UNDEFINED, [2]), False, False, False, False, False),
        (tensor(FLOAT, []), True, False, True, True, False),
        (tensor(INT64, [2]), True, False, True, True, True),
        (tensor(INT32, [256]), True, False, True, True, True),
        (tensor(T.BOOL, [2, 128]), True, False, True, True, True),
        (tensor(T.BOOL, [257]), True, False, False, False, False),
        (tensor(T.INT8, [17]), True, False, True, False, False),
        (tensor(T.INT8, [4, 4]), True, False, True, True, False),
        (tensor(FLOAT, [0]), True, False, True, True, False),
    ],
)
def test_a_type_says_how_much_inference_can_use(proto, complete, vague, small, readable, countable):
    assert types.is_vague(proto) == vague
    assert types.is_small(proto) == small
    assert types.is_readable(proto) == readable
    if proto is not None:
        assert types.is_complete(proto) == complete
        assert types.is_countable(proto) == countable


@pytest.mark.parametrize(
    ("declared", "inferred", "more"),
    [
        (tensor(FLOAT, [2]), None, False),
        (tensor(FLOAT, [2]), LIST, False),
        (tensor(FLOAT, [2]), tensor(FLOAT, None), False),
        (tensor(FLOAT, [2]), tensor(FLOAT, [None]), True),
        (tensor(FLOAT, [2]), tensor(FLOAT, ["n"]), True),
        (tensor(FLOAT, [2]), tensor(FLOAT, [3]), False),
        (tensor(FLOAT, ["n"]), tensor(FLOAT, [None]), False),
        (tensor(FLOAT, [3, 2]), tensor(FLOAT, [3, None]), True),
        (tensor(FLOAT, [3, 2]), tensor(FLOAT, [None]), False),
    ],
)
def test_a_declared_type_claims_more_if_it_has_more_lengths(declared, inferred, more):
    assert types.claims_more(declared, inferred) == more


def test_the_better_of_two_types_has_more_known_parts():
    order = [UNKNOWN, tensor(FLOAT, None), tensor(FLOAT, [None]), tensor(FLOAT, [2])]
    for i, worse in enumerate(order):
        assert types.better(None, worse) is types.better(worse, None) is worse
        for proto in order[i + 1 :]:
            assert types.better(worse, proto) is types.better(proto, worse) is proto
    declared, inferred = tensor(FLOAT, [2]), tensor(FLOAT, [3])
    assert types.better(declared, inferred) is declared
    assert types.better(None, None) is None


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        (None, None, None),
        (None, tensor(FLOAT, [2]), tensor(FLOAT, None)),
        (LIST, None, sequence(optional(tensor(FLOAT, None)))),
        (tensor(FLOAT, [2]), tensor(FLOAT, [2]), tensor(FLOAT, [2])),
        (tensor(FLOAT, [2, 3]), tensor(FLOAT, [2, 4]), tensor(FLOAT, [2, None])),
        (tensor(FLOAT, [2]), tensor(FLOAT, ["n"]), tensor(FLOAT, [None])),
        (tensor(FLOAT, [2]), tensor(FLOAT, [2, 2]), tensor(FLOAT, None)),
        (tensor(FLOAT, []), tensor(FLOAT, None), tensor(FLOAT, None)),
        (tensor(FLOAT, None), tensor(FLOAT, []), tensor(FLOAT, None)),
        (tensor(FLOAT, []), tensor(FLOAT, []), tensor(FLOAT, [])),
        (tensor(T.UNDEFINED, [2]), tensor(FLOAT, [2]), tensor(FLOAT, [2])),
        (
            sequence(tensor(FLOAT, [2])),
            sequence(tensor(FLOAT, [3])),
            sequence(tensor(FLOAT, [None])),
        ),
        (LIST, UNKNOWN, None),
    ],
)
def test_two_values_share_what_both_types_say(first, second, result):
    before = first and first.SerializeToString()
    assert types.shared(first, second) == result
    assert before == (first and first.SerializeToString())


def test_a_stack_has_a_new_first_axis_of_unknown_length():
    assert types.stacked(tensor(FLOAT, [2, "n"])) == tensor(FLOAT, [None, 2, "n"])
    assert types.stacked(tensor(FLOAT, [])) == tensor(FLOAT, [None])
    assert types.stacked(tensor(FLOAT, None)) == tensor(FLOAT, None)
