# SPDX-License-Identifier: Apache-2.0
"""Weights are separated from the model and put back without reading them into memory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    helper,
    numpy_helper,
)
from opshift.errors import BadDestination, InvalidModel
from opshift.model import weights
from opshift.model.arrays import to_array
from opshift.model.bytes import ranges, source, wire
from opshift.model.walk import tensors as all_tensors
from opshift.model.weights import (
    Weights,
    carve_file,
    carve_model,
    checkable,
    copy,
    fill,
    output,
    splice,
    transplant,
)
from opshift.model.weights.output import refer as refer_to
from opshift.opsets.elements import ELEMENTS
from opshift.protos.copies import as_model

UNKNOWN = b"\xf8\x3f\x05" + wire.framed(1022, b"later") + b"\xfb\x3f\x08\x01\xfc\x3f"
"""A number, bytes and a group in fields that no version of ONNX has."""

COUNT = 3000
TYPES = sorted(number for number in ELEMENTS if number in TensorProto.DataType.values())


@pytest.fixture(autouse=True, scope="module", params=[source.WHOLE, 0], ids=["whole", "in pieces"])
def read_at_once(request):
    """The number of bytes per read: small models are tested below and above the limit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "WHOLE", request.param)
        yield request.param


# --- models to carve ------------------------------------------------------------------------------


def tensor(name: str, data_type: int = 1, *, raw: bool = True, count: int = COUNT) -> TensorProto:
    """A tensor of small numbers, stored one way or the other."""
    made = TensorProto(name=name, data_type=data_type, dims=[count], doc_string="kept")
    size = wire.raw_size(data_type, count)
    field = wire.PAYLOAD[ELEMENTS[data_type].field]
    if raw:
        made.raw_data = bytes(i % 59 for i in range(size))
    elif field == "int32_data":
        bits = ELEMENTS[data_type].bits
        entries = size if bits < 6 else count
        getattr(made, field).extend(i % 2 for i in range(entries))
    else:
        doubled = 2 if data_type in (TensorProto.COMPLEX64, TensorProto.COMPLEX128) else 1
        getattr(made, field).extend(i % 300 for i in range(count * doubled))
    return made


def sparse(name: str, data: TensorProto) -> SparseTensorProto:
    """Returns a sparse tensor with all its values at the beginning."""
    made = SparseTensorProto(values=data, dims=[2 * COUNT])
    made.values.name = name
    made.indices.CopyFrom(numpy_helper.from_array(np.arange(COUNT, dtype=np.int64)))
    return made


def attribute(name: str, kind: int, **value: object) -> AttributeProto:
    return AttributeProto(name=name, type=kind, **value)


def node_with(*attributes: AttributeProto) -> NodeProto:
    return NodeProto(op_type="Holder", domain="test", output=["h"], attribute=attributes)


def place_initializer(model: ModelProto, data: TensorProto) -> None:
    model.graph.initializer.append(data)


def place_sparse_initializer(model: ModelProto, data: TensorProto) -> None:
    model.graph.sparse_initializer.append(sparse("sparse", data))


def place_attribute(model: ModelProto, data: TensorProto) -> None:
    model.graph.node.append(node_with(attribute("value", AttributeProto.TENSOR, t=data)))


def place_attribute_list(model: ModelProto, data: TensorProto) -> None:
    model.graph.node.append(
        node_with(
            attribute("a", AttributeProto.TENSORS, tensors=[data, data]),
            attribute("b", AttributeProto.SPARSE_TENSORS, sparse_tensors=[sparse("s", data)]),
            attribute("c", AttributeProto.SPARSE_TENSOR, sparse_tensor=sparse("t", data)),
        )
    )


def place_subgraph(model: ModelProto, data: TensorProto) -> None:
    inner = GraphProto(name="inner", initializer=[data])
    outer = GraphProto(name="outer")
    outer.node.append(node_with(attribute("body", AttributeProto.GRAPHS, graphs=[inner, inner])))
    model.graph.node.append(node_with(attribute("body", AttributeProto.GRAPH, g=outer)))


def place_function(model: ModelProto, data: TensorProto) -> None:
    function = model.functions.add(name="f", domain="test")
    function.attribute_proto.append(attribute("default", AttributeProto.TENSOR, t=data))
    function.node.append(node_with(attribute("value", AttributeProto.TENSOR, t=data)))


def place_training(model: ModelProto, data: TensorProto) -> None:
    training = model.training_info.add()
    training.initialization.initializer.append(data)
    training.algorithm.node.append(node_with(attribute("value", AttributeProto.TENSOR, t=data)))


PLACES = [value for name, value in sorted(globals().items()) if name.startswith("place_")]


def empty() -> ModelProto:
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("Add", ["x", "x"], ["y"], name="add")],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [COUNT])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [COUNT])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    proto.metadata_props.add(key="who", value="me")
    return proto


def everywhere() -> ModelProto:
    """A model with a large tensor in every place, and small ones between."""
    made = empty()
    for i, place in enumerate(PLACES):
        place(made, tensor(f"t{i}", raw=bool(i % 2)))
        made.graph.initializer.append(tensor(f"small{i}", count=3))
    return made


def payload_bytes(model: ModelProto) -> int:
    return sum(len(t.raw_data) + len(t.float_data) + len(t.int32_data) for t in all_tensors(model))


def saved(model: ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def copy_of(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def read(path: Path) -> ModelProto:
    return ModelProto.FromString(path.read_bytes())


# --- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "typed"])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("data_type", [1, 2, 7, 10, 11, 13])
def test_every_payload_in_every_place_comes_back(place, data_type, raw, tmp_path):
    count = COUNT * 2
    model = empty()
    place(model, tensor("t", data_type, raw=raw, count=count))
    before = model.SerializeToString(deterministic=True)

    skeleton, carved = carve_model(model)
    assert payload_bytes(skeleton) == 0
    assert model.SerializeToString(deterministic=True) == before
    fill(skeleton, carved)
    assert skeleton == model

    path = saved(model, tmp_path)
    skeleton, carved = carve_file(path)
    assert payload_bytes(skeleton) == 0
    splice(skeleton, carved, tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == before
    fill(skeleton, carved)
    assert skeleton == model


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "typed"])
@pytest.mark.parametrize("data_type", TYPES, ids=TensorProto.DataType.Name)
def test_every_type_is_loaded_and_goes_to_one_file(data_type, raw, tmp_path):
    count = 8 * weights.THRESHOLD
    model = empty()
    model.graph.initializer.append(tensor("t", data_type, raw=raw, count=count))
    expected = to_array(model.graph.initializer[0])
    path = saved(model, tmp_path)
    for skeleton, carved in (carve_model(model), carve_file(path)):
        assert Weights.is_stub(skeleton.graph.initializer[0])
        np.testing.assert_array_equal(carved.load(skeleton.graph.initializer[0]), expected)
        splice(skeleton, carved, tmp_path / "out.onnx", external="one-file")
        back = onnx.load(tmp_path / "out.onnx")
        np.testing.assert_array_equal(to_array(back.graph.initializer[0]), expected)


def test_small_and_string_tensors_stay_readable():
    model = empty()
    model.graph.initializer.append(tensor("small", count=weights.THRESHOLD // 4))
    text = TensorProto(name="text", data_type=TensorProto.STRING, dims=[COUNT])
    text.string_data.extend([b"word"] * COUNT)
    model.graph.initializer.append(text)
    skeleton, carved = carve_model(model)
    assert skeleton == model
    assert not carved.sources
    np.testing.assert_array_equal(
        carved.load(skeleton.graph.initializer[0]),
        numpy_helper.to_array(model.graph.initializer[0]),
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda t: t.float_data.append(1.0),
        lambda t: t.ClearField("raw_data"),
        lambda t: t.ClearField("data_type"),
        lambda t: t.segment.SetInParent(),
    ],
    ids=["two payloads", "no payload", "no type", "segment"],
)
def test_an_ill_formed_tensor_is_left_for_the_checker_to_see(spoil, tmp_path):
    model = empty()
    model.graph.initializer.append(tensor("t"))
    spoil(model.graph.initializer[0])
    for skeleton, carved in (carve_model(model), carve_file(saved(model, tmp_path))):
        assert skeleton == model
        assert not carved.sources


def test_unknown_fields_survive(tmp_path):
    model = everywhere()
    for message in (
        model,
        model.graph,
        model.graph.initializer[0],
        model.graph.node[0],
        model.functions[0],
        model.training_info[0],
        *all_tensors(model),
    ):
        message.MergeFromString(UNKNOWN)
    before = model.SerializeToString(deterministic=True)
    skeleton, carved = carve_model(model)
    splice(skeleton, carved, tmp_path / "object.onnx")
    assert (tmp_path / "object.onnx").read_bytes() == before
    fill(skeleton, carved)
    assert skeleton.SerializeToString(deterministic=True) == before
    skeleton, carved = carve_file(tmp_path / "object.onnx")
    splice(skeleton, carved, tmp_path / "file.onnx")
    assert (tmp_path / "file.onnx").read_bytes() == before
    skeleton, carved = carve_model(model)
    transplant(skeleton, carved, model)
    assert model.SerializeToString(deterministic=True) == before


def test_payloads_written_element_by_element_or_in_chunks(tmp_path):
    floats = np.arange(COUNT, dtype="<f4")
    unpacked = b"".join(b"\x25" + value.tobytes() for value in floats)
    chunks = wire.framed(4, floats[:9].tobytes()) + wire.framed(4, floats[9:].tobytes())
    gap = wire.framed(8, b"name")
    for payload in (unpacked, chunks, chunks[:38] + gap + chunks[38:]):
        data = b"\x08" + wire.varint(COUNT) + b"\x10\x01" + payload
        path = tmp_path / "model.onnx"
        path.write_bytes(empty().SerializeToString() + wire.framed(7, wire.framed(5, data)))
        expected = read(path)
        skeleton, carved = carve_file(path)
        assert len(carved.sources) == 1
        np.testing.assert_array_equal(carved.load(skeleton.graph.initializer[0]), floats)
        for policy in ("keep", "one-file"):
            splice(skeleton, carved, tmp_path / "out.onnx", external=policy)
            back = onnx.load(tmp_path / "out.onnx").graph.initializer[0]
            np.testing.assert_array_equal(numpy_helper.to_array(back), floats)
        fill(skeleton, carved)
        assert skeleton == expected


# --- any model ------------------------------------------------------------------------------------

texts = st.text(max_size=6)
tensors = st.builds(
    tensor,
    texts,
    st.sampled_from(TYPES),
    raw=st.booleans(),
    count=st.sampled_from([0, 1, 7, 40, 200]),
)


@st.composite
def graphs(draw: st.DrawFn, depth: int = 2) -> GraphProto:
    graph = GraphProto(name=draw(texts), initializer=draw(st.lists(tensors, max_size=3)))
    graph.sparse_initializer.extend(sparse("s", t) for t in draw(st.lists(tensors, max_size=1)))
    for kind in draw(st.lists(st.integers(0, 4), max_size=4)):
        added = graph.node.add(op_type=draw(st.sampled_from(["Constant", "A", "B"])), name="n")
        if kind == 1:
            added.attribute.append(attribute("v", AttributeProto.TENSOR, t=draw(tensors)))
        elif kind == 2:
            many = draw(st.lists(tensors, max_size=2))
            added.attribute.append(attribute("v", AttributeProto.TENSORS, tensors=many))
        elif kind == 3 and depth:
            body = draw(graphs(depth - 1))
            added.attribute.append(attribute("v", AttributeProto.GRAPH, g=body))
        elif kind == 4:
            added.attribute.append(helper.make_attribute("ints", list(range(99))))
    return graph


@st.composite
def models(draw: st.DrawFn) -> ModelProto:
    proto = ModelProto(ir_version=8, doc_string=draw(texts), graph=draw(graphs()))
    for body in draw(st.lists(graphs(1), max_size=1)):
        proto.training_info.add(initialization=body)
        proto.functions.add(name="f", node=body.node)
    if draw(st.booleans()):
        proto.MergeFromString(UNKNOWN)
    return proto


@given(models())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_model_comes_back_from_both_doors(tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("any")
    before = model.SerializeToString(deterministic=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copy, "THRESHOLD", 30)
        path = saved(model, folder)
        for skeleton, carved in (carve_model(model), carve_file(path)):
            splice(skeleton, carved, folder / "out.onnx")
            assert (folder / "out.onnx").read_bytes() == before
            fill(skeleton, carved)
            assert skeleton.SerializeToString(deterministic=True) == before
        skeleton, carved = carve_model(model)
        transplant(skeleton, carved, model)
        assert model.SerializeToString(deterministic=True) == before


# --- into the same object -------------------------------------------------------------------------


def test_transplant_equals_a_fill_and_leaves_kept_tensors_alone():
    model = everywhere()
    for i in range(4):
        model.graph.initializer.append(tensor(f"more{i}"))
    kept = {t.name: t for t in model.graph.initializer}
    skeleton, carved = carve_model(model)

    graph = skeleton.graph
    graph.node[0].op_type = "Mul"
    skeleton.opset_import[0].version = 18
    skeleton.metadata_props[0].value = "you"
    by_name = {t.name: t for t in graph.initializer}
    by_name["more1"].name = "renamed"
    by_name["more2"].doc_string = "new"
    by_name["small0"].raw_data = b"\1\2\3\4" * 3
    del graph.initializer[[t.name for t in graph.initializer].index("more0")]
    graph.initializer.append(tensor("fresh"))
    graph.initializer.sort(key=lambda t: t.name, reverse=True)
    again = graph.initializer.add()
    again.CopyFrom(by_name["more3"])
    again.name = "twice"

    expected = copy_of(skeleton)
    fill(expected, carved)
    transplant(skeleton, carved, model)
    assert model == expected
    now = {t.name: t for t in model.graph.initializer}
    assert now["more3"] is kept["more3"]
    assert now["small1"] is kept["small1"]
    assert now["renamed"] is kept["more1"]


def test_transplant_of_an_unchanged_skeleton_is_the_identity():
    model = everywhere()
    before = model.SerializeToString(deterministic=True)
    skeleton, carved = carve_model(model)
    transplant(skeleton, carved, model)
    assert model.SerializeToString(deterministic=True) == before


def test_a_stub_that_was_never_carved_is_an_error():
    skeleton, _ = carve_model(everywhere())
    with pytest.raises(InvalidModel, match="does not have"):
        fill(skeleton, Weights())


# --- what the checker sees ------------------------------------------------------------------------


def runnable() -> ModelProto:
    return onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[3000] x, bool c) => (float[3000] y)
        {
            q = Add(x, w)
            y = If(c) <
                then_branch = t () => (float[3000] z) { z = Add(q, v) },
                else_branch = e () => (float[3000] z2) { z2 = Identity(q) }
            >
        }""")


def check(view: bytes | ModelProto) -> ModelProto:
    made = ModelProto.FromString(view) if isinstance(view, bytes) else view
    onnx.checker.check_model(made, full_check=True)
    return made


def test_the_checker_accepts_stubs_of_initializers():
    model = runnable()
    model.graph.initializer.extend([tensor("w"), tensor("s", count=3), tensor("v")])
    skeleton, _ = carve_model(model)
    before = skeleton.SerializeToString(deterministic=True)
    view = checkable(skeleton)
    assert isinstance(view, bytes)
    findings = check(view)
    assert [value.name for value in findings.graph.input] == ["x", "c", "w", "v"]
    assert [t.name for t in findings.graph.initializer] == ["s"]
    assert skeleton.SerializeToString(deterministic=True) == before


def test_the_checker_accepts_external_tensors_without_their_files():
    model = runnable()
    model.graph.initializer.extend([tensor("w"), tensor("v")])
    for data in model.graph.initializer:
        data.ClearField("raw_data")
        refer_to(data, "nowhere.bin", 0, 4 * COUNT)
    check(checkable(model))


@pytest.mark.parametrize("present", [True, False])
def test_the_checker_sees_short_integers_of_data_files_that_exist(present, tmp_path):
    model, axes = runnable(), TensorProto(name="a", data_type=TensorProto.INT64, dims=[2])
    refer_to(axes, "data.bin", 8, 16)
    model.graph.initializer.extend([tensor("w"), tensor("v"), axes])
    model.graph.node[1].attribute[0].g.initializer.add().CopyFrom(axes)
    model.graph.node[1].attribute[0].g.initializer[-1].name = "b"
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    if present:
        (tmp_path / "data.bin").write_bytes(np.arange(3, dtype="<i8").tobytes())
    skeleton, payloads = carve_file(tmp_path / "in.onnx")
    shown = as_model(checkable(skeleton, weights=payloads))
    check(shown)
    values = {t.name: to_array(t).tolist() for t in all_tensors(shown) if t.name in ("a", "b")}
    assert values == ({"a": [1, 2], "b": [1, 2]} if present else {})
    assert skeleton.graph.initializer[-1].data_location == TensorProto.EXTERNAL


def test_an_external_tensor_in_a_function_may_have_a_negative_length():
    model, value = runnable(), TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[-2])
    refer_to(value, "nowhere.bin", 0, 8)
    node = helper.make_node("Constant", [], ["y"], value=value)
    imports = [helper.make_opsetid("", 13)]
    model.functions.append(helper.make_function("f", "F", [], ["y"], [node], imports))
    shown = as_model(checkable(model)).functions[0].node[0].attribute[0].t
    assert (shown.raw_data, list(shown.dims)) == (b"", [-2])


def test_an_initializer_that_is_an_input_is_shown_once():
    model = runnable()
    model.graph.initializer.extend([tensor("w"), tensor("v")])
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [COUNT]))
    findings = check(checkable(carve_model(model)[0]))
    assert [value.name for value in findings.graph.input] == ["x", "c", "w", "v"]


def test_initializers_of_one_name_are_not_hidden():
    model = runnable()
    model.graph.initializer.extend([tensor("w"), tensor("w")])
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [COUNT]))
    with pytest.raises(onnx.checker.ValidationError, match="w initializer name is not unique"):
        check(checkable(carve_model(model)[0]))


def test_a_model_without_stubs_is_shown_as_it_is():
    model = runnable()
    assert checkable(model) == model.SerializeToString(deterministic=True)


def test_the_checker_accepts_stubs_in_bodies_and_nodes():
    model = runnable()
    graph = model.graph
    graph.initializer.append(tensor("w"))
    then, other = graph.node[1].attribute[0].g, graph.node[1].attribute[1].g
    then.initializer.append(tensor("v"))
    other.node.add(op_type="Constant", output=["unused"]).attribute.append(
        attribute("value", AttributeProto.TENSOR, t=tensor("any"))
    )
    del other.node[0]
    other.node.add(op_type="Constant", output=["z2"]).attribute.append(
        attribute("value", AttributeProto.TENSOR, t=tensor("any"))
    )
    graph.sparse_initializer.append(sparse("linear", tensor("values")))
    twice = sparse("pairs", tensor("values"))
    twice.dims[:] = [COUNT, 2]
    twice.indices.CopyFrom(
        numpy_helper.from_array(np.stack([np.arange(COUNT)] * 2, 1) % [COUNT, 2])
    )
    graph.sparse_initializer.append(twice)
    check(model)
    skeleton, _ = carve_model(model)
    before = skeleton.SerializeToString(deterministic=True)
    findings = check(checkable(skeleton))
    assert [value.name for value in findings.graph.input] == ["x", "c", "w", "v", "unused"]
    assert skeleton.SerializeToString(deterministic=True) == before


def with_large_constants(*names):
    model = runnable()
    model.graph.initializer.extend([tensor("w"), tensor("v")])
    for name in names:
        value = attribute("value", AttributeProto.TENSOR, t=tensor("any"))
        model.graph.node.add(op_type="Constant", output=[name]).attribute.append(value)
    return carve_model(model)[0]


def test_large_constants_of_the_main_graph_become_inputs():
    skeleton = with_large_constants("k", "l")
    shown = checkable(skeleton)
    assert isinstance(shown, bytes), "cut out of the bytes, without a copy of the model"
    findings = check(shown)
    assert [value.name for value in findings.graph.input] == ["x", "c", "k", "l", "w", "v"]
    assert [node.op_type for node in findings.graph.node] == [
        node.op_type for node in skeleton.graph.node if node.output[0] not in ("k", "l")
    ]


def test_a_large_constant_with_the_name_of_another_value_is_not_hoisted():
    skeleton = with_large_constants("k", "k")
    shown = as_model(checkable(skeleton))
    assert [value.name for value in shown.graph.input] == ["x", "c", "w", "v"]
    assert [node.output[0] for node in shown.graph.node].count("k") == 2


def test_a_name_that_two_bodies_define_is_not_hoisted():
    model = runnable()
    model.graph.initializer.append(tensor("w"))
    for body in (model.graph.node[1].attribute[0].g, model.graph.node[1].attribute[1].g):
        body.initializer.append(tensor("v"))
    findings = check(checkable(carve_model(model)[0]))
    assert [value.name for value in findings.graph.input] == ["x", "c", "w"]


def test_the_checker_accepts_stubs_in_functions():
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
        g (float[3000] x) => (float[3000] y) { y = f.plus(x) }
        <domain: "f", opset_import: ["" : 17]>
        plus (a) => (b) { k = Constant() b = Add(a, k) }""")
    model.functions[0].node[0].attribute.append(
        attribute("value", AttributeProto.TENSOR, t=tensor("k"))
    )
    check(checkable(carve_model(model)[0]))


def test_a_marker_in_a_text_confuses_nobody(tmp_path):
    model = runnable()
    model.graph.initializer.extend([tensor("w"), tensor("v")])
    skeleton, carved = carve_model(model)
    skeleton.doc_string = wire.marker(0).decode()
    skeleton.graph.node[0].doc_string = wire.marker(1).decode()
    check(checkable(skeleton))
    splice(skeleton, carved, tmp_path / "out.onnx")
    fill(skeleton, carved)
    assert read(tmp_path / "out.onnx") == skeleton


# --- files ----------------------------------------------------------------------------------------


def test_in_place_keeps_the_mode_and_the_weights(tmp_path):
    path = saved(everywhere(), tmp_path)
    path.chmod(0o640)
    skeleton, carved = carve_file(path)
    skeleton.producer_name = "longer than it was before"
    splice(skeleton, carved, path, in_place=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    expected = copy_of(skeleton)
    fill(expected, carved)  # from the file that has no name any more
    assert read(path) == expected
    assert os.listdir(tmp_path) == [path.name]


def test_the_same_input_gives_the_same_bytes(tmp_path):
    path = saved(everywhere(), tmp_path)
    for policy in ("keep", "one-file"):
        for name in ("a", "b"):
            (tmp_path / name).mkdir(exist_ok=True)
            splice(*carve_file(path), tmp_path / name / "m.onnx", external=policy)
        for file in os.listdir(tmp_path / "a"):
            same = (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
            assert same, file


@pytest.mark.parametrize("missing", [("copy_file_range",), ("copy_file_range", "sendfile")])
def test_without_help_of_the_kernel(missing, tmp_path, monkeypatch):
    for name in missing:
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(ranges, "_CHUNK", 1000)
    path = saved(everywhere(), tmp_path)
    splice(*carve_file(path), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == path.read_bytes()


def test_a_kernel_that_will_not_is_done_without(tmp_path, monkeypatch):
    def fail(*_: object) -> int:
        raise OSError(errno.EXDEV, "other device")

    monkeypatch.setattr(os, "copy_file_range", fail)
    monkeypatch.setattr(os, "sendfile", fail)
    path = saved(everywhere(), tmp_path)
    splice(*carve_file(path), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("shift", range(1, 9))
def test_wherever_the_bytes_come_to_lie(shift, tmp_path, monkeypatch):
    monkeypatch.setattr(ranges, "_PAGE", 4)
    monkeypatch.setattr(ranges, "_LARGE_PAGE", 64)
    monkeypatch.setattr(ranges, "_CHUNK", 256)
    skeleton, carved = carve_file(saved(everywhere(), tmp_path))
    skeleton.producer_name = "x" * shift
    splice(skeleton, carved, tmp_path / "out.onnx")
    fill(skeleton, carved)
    assert read(tmp_path / "out.onnx") == skeleton


def test_a_file_that_shrinks_is_noticed(outside, tmp_path):
    skeleton, carved = carve_file(outside)
    region = carved.locate(skeleton.graph.initializer[1])
    os.truncate(outside.parent / "a.bin", 100)
    with (
        pytest.raises(InvalidModel, match="changed while it was read"),
        open(tmp_path / "out", "wb") as file,
    ):
        list(region.write(file.fileno()))


def test_a_kernel_that_moves_little_at_a_time(tmp_path, monkeypatch):
    real = os.copy_file_range
    monkeypatch.setattr(
        os, "copy_file_range", lambda src, dst, count, offset: real(src, dst, min(count, 7), offset)
    )
    path = saved(everywhere(), tmp_path)
    splice(*carve_file(path), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == path.read_bytes()


def test_the_disk_begins_while_the_rest_is_written(tmp_path, monkeypatch):
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(source, "WHOLE", 0)
    monkeypatch.setattr(ranges, "_STORED", 500)
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, at, size, _: told.append((at, size)))
    path = saved(everywhere(), tmp_path)
    splice(*carve_file(path), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == path.read_bytes()
    assert len(told) > 2
    assert all(size >= 500 for _, size in told)
    assert [at + size for at, size in told[:-1]] == [at for at, _ in told[1:]]


def test_a_place_that_takes_no_advice(tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(errno.EINVAL, "no advice for this file")

    monkeypatch.setattr(ranges, "_STORED", 500)
    monkeypatch.setattr(os, "posix_fadvise", fail)
    path = saved(everywhere(), tmp_path)
    splice(*carve_file(path), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("policy", ["keep", "one-file"])
@pytest.mark.parametrize(
    ("module", "function"), [(ranges, "_move"), (os, "write"), (os, "fsync"), (os, "replace")]
)
def test_a_failure_leaves_nothing_behind(
    module, function, policy, tmp_path, monkeypatch, read_at_once
):
    if module is ranges and read_at_once:
        pytest.skip("what was read at once is written from memory")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    path = saved(everywhere(), tmp_path)
    before = path.read_bytes()
    skeleton, carved = carve_file(path)
    monkeypatch.setattr(module, function, fail)
    with pytest.raises(OSError, match="no space left") as found:
        splice(skeleton, carved, path, external=policy, in_place=True)
    assert os.path.dirname(found.value.filename) == os.fspath(tmp_path)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == before


@pytest.mark.parametrize("there", [True, False])
def test_when_the_model_cannot_have_its_name_the_data_goes_back(there, tmp_path, monkeypatch):
    real = os.replace

    def fail(source: str, target: str) -> None:
        if target.endswith(".onnx"):
            raise OSError(errno.EIO, "broken")
        real(source, target)

    path = saved(everywhere(), tmp_path)
    if there:
        (tmp_path / "model.onnx.data").write_bytes(b"of somebody")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    skeleton, carved = carve_file(path)
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="broken"):
        splice(skeleton, carved, path, external="one-file", in_place=True)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


# --- external data --------------------------------------------------------------------------------


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A model with one carved tensor and three in data files, one of them in a subfolder."""
    folder = tmp_path / "from"
    (folder / "sub").mkdir(parents=True)
    model = runnable()
    model.graph.initializer.extend([tensor("w"), tensor("v"), tensor("u"), tensor("t")])
    (folder / "a.bin").write_bytes(b"junk" + bytes(range(250)) * 96)
    (folder / "sub" / "b.bin").write_bytes(b"\1\2\3\4" * COUNT)
    refer = {"v": ("a.bin", 4), "u": ("a.bin", 4 * COUNT), "t": (os.path.join("sub", "b.bin"), 0)}
    for data in model.graph.initializer:
        if data.name in refer:
            data.ClearField("raw_data")
            refer_to(data, *refer[data.name], 4 * COUNT)
    return saved(model, folder)


def values(path: Path) -> dict[str, bytes]:
    loaded = onnx.load(path)
    return {t.name: numpy_helper.to_array(t).tobytes() for t in loaded.graph.initializer}


def test_external_tensors_are_loaded(outside):
    skeleton, carved = carve_file(outside)
    assert all(map(Weights.is_stub, skeleton.graph.initializer))
    for data in skeleton.graph.initializer:
        assert carved.load(data).tobytes() == values(outside)[data.name]


@pytest.mark.parametrize("policy", ["copy", "inline", "one-file"])
def test_external_data_follows_to_another_folder(policy, outside, tmp_path):
    target = tmp_path / "to" / "new.onnx"
    target.parent.mkdir()
    before = values(outside)
    for _ in range(2):  # and once more over the result
        written = splice(*carve_file(outside), target, external=policy)
        assert written == [str(target), *weights.data_files(*carve_file(target))]
    names = sorted(str(f.relative_to(target.parent)) for f in target.parent.rglob("*.*"))
    assert (
        names
        == {
            "copy": ["a.bin", "new.onnx", "sub/b.bin"],
            "inline": ["new.onnx"],
            "one-file": ["new.onnx", "new.onnx.data"],
        }[policy]
    )
    assert values(target) == before
    onnx.checker.check_model(target, full_check=True)


@pytest.mark.parametrize("policy", weights.POLICIES)
def test_external_data_in_place(policy, outside):
    before = values(outside)
    for _ in range(2):
        written = splice(*carve_file(outside), outside, external=policy, in_place=True)
        assert written == [str(outside), *weights.data_files(*carve_file(outside))]
    assert values(outside) == before
    assert (outside.parent / "a.bin").exists()


def test_one_file_is_aligned_in_order_and_shares_what_was_shared(outside, tmp_path):
    model = read(outside)
    model.graph.initializer.append(model.graph.initializer[1])
    model.graph.initializer[-1].name = "tied"
    outside.write_bytes(model.SerializeToString())
    splice(*carve_file(outside), tmp_path / "new.onnx", external="one-file")
    where = {
        t.name: {entry.key: entry.value for entry in t.external_data}
        for t in read(tmp_path / "new.onnx").graph.initializer
    }
    offsets = [int(entry["offset"]) for entry in where.values()]
    assert offsets == [0, 12288, 24576, 36864, 12288]
    assert {entry["location"] for entry in where.values()} == {"new.onnx.data"}


def test_one_file_leaves_inline_what_readers_do_not_look_for(tmp_path):
    model = everywhere()
    path = saved(model, tmp_path)
    splice(*carve_file(path), tmp_path / "new.onnx", external="one-file")
    written = read(tmp_path / "new.onnx")
    for data in (
        written.graph.sparse_initializer[0].values,
        written.training_info[0].initialization.initializer[0],
        written.functions[0].attribute_proto[0].t,
    ):
        assert not Weights.is_stub(data)
    loaded, expected = onnx.load(tmp_path / "new.onnx"), onnx.load(path)
    for now, then in zip(all_tensors(loaded), all_tensors(expected), strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(now), numpy_helper.to_array(then))


@pytest.mark.parametrize("policy", ["keep", "copy"])
def test_a_result_that_nobody_could_read_goes_to_one_file(policy, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "LIMIT", 100_000)
    skeleton, carved = carve_model(everywhere())
    del skeleton.training_info[:], skeleton.graph.sparse_initializer[:]
    splice(skeleton, carved, tmp_path / "new.onnx", external=policy)
    assert (tmp_path / "new.onnx.data").exists()
    model = onnx.load(tmp_path / "new.onnx")
    fill(skeleton, carved)
    for now, then in zip(model.graph.initializer, skeleton.graph.initializer, strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(now), numpy_helper.to_array(then))


def test_what_no_file_can_hold_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(output, "LIMIT", 20_000)
    with pytest.raises(BadDestination, match="even without its weights"):
        splice(*carve_model(everywhere()), tmp_path / "new.onnx")
    assert os.listdir(tmp_path) == []


def test_inline_beyond_the_limit_is_refused(outside, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "LIMIT", 20_000)
    with pytest.raises(BadDestination, match='give `external="one-file"`'):
        splice(*carve_file(outside), tmp_path / "new.onnx", external="inline")
    assert not (tmp_path / "new.onnx").exists()


def test_keep_cannot_leave_the_folder(outside, tmp_path):
    with pytest.raises(BadDestination, match=r"'a.bin'.*`external=.copy.`, `external=.inline.` or"):
        splice(*carve_file(outside), tmp_path / "new.onnx")
    assert sorted(os.listdir(tmp_path)) == ["from"]


def test_another_file_of_that_name_is_not_overwritten(outside, tmp_path):
    (tmp_path / "to" / "sub").mkdir(parents=True)
    (tmp_path / "to" / "sub" / "b.bin").write_bytes(b"of another model")
    with pytest.raises(BadDestination, match="exists already"):
        splice(*carve_file(outside), tmp_path / "to" / "new.onnx", external="copy")
    assert sorted(os.listdir(tmp_path / "to")) == ["sub"]


def test_a_model_does_not_overwrite_its_data(outside, tmp_path):
    with pytest.raises(BadDestination, match="would overwrite"):
        splice(*carve_file(outside), tmp_path / "a.bin", external="copy")
    assert not (tmp_path / "sub").exists()


def test_folders_that_were_made_for_nothing_are_removed(outside, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    (tmp_path / "to").mkdir()
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="broken"):
        splice(*carve_file(outside), tmp_path / "to" / "new.onnx", external="copy")
    assert os.listdir(tmp_path / "to") == []


@pytest.mark.parametrize(
    ("location", "offset", "length", "complaint"),
    [
        ("/etc/passwd", 0, 1, "not inside"),
        ("../secret.bin", 0, 1, "not inside"),
        ("sub/../a.bin", 0, 1, "not inside"),
        ("way-out/secret.bin", 0, 1, "not inside"),
        ("", 0, 1, "not inside"),
        ("none.bin", 0, 1, "is missing"),
        ("sub", 0, 1, "is not a regular file"),
        ("a.bin", 24000, 4000, "too few"),
        ("a.bin", -1, 1, "must be numbers"),
        ("a.bin", "zero", 1, "must be numbers"),
    ],
)
@pytest.mark.parametrize("policy", weights.POLICIES)
def test_external_data_that_is_refused(
    location, offset, length, complaint, policy, outside, tmp_path
):
    (tmp_path / "secret.bin").write_bytes(b"secret")
    (outside.parent / "way-out").symlink_to(tmp_path)
    skeleton, carved = carve_file(outside)
    refer_to(skeleton.graph.initializer[1], location, offset, length)
    with pytest.raises(InvalidModel, match=f"'v'.*{complaint}") as caught:
        carved.load(skeleton.graph.initializer[1])
    assert repr(location) in str(caught.value)
    target = outside.parent / "new.onnx"
    with pytest.raises(InvalidModel, match=complaint):
        splice(skeleton, carved, target, external=policy)
    assert not target.exists()


def test_an_unknown_policy_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="give one of keep"):
        splice(*carve_model(empty()), tmp_path / "new.onnx", external="none")


# --- files that are no models ---------------------------------------------------------------------


def nested(levels: int) -> bytes:
    """Graphs in attributes in nodes in graphs, around a large tensor."""
    body = wire.framed(5, tensor("t").SerializeToString())
    for _ in range(levels):
        body = wire.framed(1, wire.framed(5, wire.framed(6, body)))
    return b"\x08\x08" + wire.framed(7, body)


GOOD = everywhere().SerializeToString()
LARGE = tensor("t").SerializeToString()
TWICE = AttributeProto(name="a", type=AttributeProto.TENSOR).SerializeToString() + 2 * wire.framed(
    5, LARGE
)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello, this is not a model",
        b'{"irVersion": 8}' * 400,
        b"\x80\x02\x95" + bytes(9999),
        GOOD[:-5],
        GOOD[: len(GOOD) // 2],
        GOOD[:1],
        b"\xff" * 20,
        wire.framed(100, b"some other message"),
        b"\x0a\x02ab" + GOOD,
        b"\x38\x07" + b"\x08\x08",
        b"\x08\x08" + wire.framed(7, b"\x28\x05"),
        b"\x08\x08\x0f",
        b"\x08\x08\x0c",
        b"\x08\x08" + b"\xf3\x01" + b"\x08\x08",
        b"\x08\x08" + wire.framed(7, wire.framed(5, LARGE[:-100])),
        b"\x08\x08" + wire.framed(7, wire.framed(5, LARGE) + wire.framed(1, GOOD)[:-1]),
        b"\x08\x08" + wire.framed(7, wire.framed(1, wire.framed(5, TWICE))),
        b"\x08\x08" + wire.framed(7, wire.framed(5, LARGE + wire.marker(0))),
        nested(34),
        nested(500),
    ],
)
def test_what_is_not_a_model_is_refused_by_name(data, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(InvalidModel, match=r"model\.onnx") as caught:
        carve_file(path)
    assert "\n" not in str(caught.value)


def test_the_deepest_nesting_that_protobuf_reads(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(nested(32))
    skeleton, carved = carve_file(path)
    assert len(carved.sources) == 1
    splice(skeleton, carved, tmp_path / "out.onnx")
    assert read(tmp_path / "out.onnx") == read(path)


def test_every_truncation_is_refused_or_read_the_way_protobuf_does(tmp_path, monkeypatch):
    monkeypatch.setattr(copy, "THRESHOLD", 50)
    model = runnable()
    model.graph.initializer.append(tensor("w", count=40))
    data = model.SerializeToString()
    path = tmp_path / "model.onnx"
    for end in range(1, len(data), 7):
        path.write_bytes(data[:end])
        try:
            expected = ModelProto.FromString(data[:end])
        except Exception:
            with pytest.raises(InvalidModel):
                carve_file(path)
            continue
        skeleton, carved = carve_file(path)
        fill(skeleton, carved)
        assert skeleton == expected


def test_a_file_that_is_not_there_is_an_ordinary_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        carve_file(tmp_path / "none.onnx")


def test_a_model_without_large_payloads_is_copied_by_its_bytes():
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    )
    proto.MergeFromString(b"\xfa\x3f\x03new")  # a field that this onnx does not know
    for value in (*proto.graph.input, *proto.graph.output):
        value.doc_string = "kept"
    skeleton, carved = carve_model(proto)
    assert skeleton is not proto
    assert not carved.sources
    assert skeleton.SerializeToString() == proto.SerializeToString()


def test_a_large_payload_in_a_node_is_carved_although_no_initializer_is_large():
    node = onnx.helper.make_node(
        "Constant",
        [],
        ["y"],
        value=onnx.numpy_helper.from_array(np.ones(wire.THRESHOLD, np.float32)),
    )
    info = onnx.helper.make_tensor_value_info("y", 1, [wire.THRESHOLD])
    made = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [info]))
    skeleton, carved = carve_model(made)
    assert len(carved.sources) == 1
    assert len(skeleton.SerializeToString()) < wire.THRESHOLD


def test_one_data_file_holds_every_large_weight_of_integers(tmp_path):
    node = helper.make_node("Gather", ["w0", "i"], ["y"])
    weights_of = [
        numpy_helper.from_array(np.full(COUNT, at, np.int64 if at % 2 else np.int32), f"w{at}")
        for at in range(40)
    ]
    ends = [helper.make_tensor_value_info(name, kind, ["N"]) for name, kind in (("i", 7), ("y", 6))]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], weights_of)
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    splice(*carve_file(tmp_path / "m.onnx"), tmp_path / "new.onnx", external="one-file")
    written = onnx.load(tmp_path / "new.onnx", load_external_data=False).graph.initializer
    assert [one.name for one in written if one.data_location != TensorProto.EXTERNAL] == []
