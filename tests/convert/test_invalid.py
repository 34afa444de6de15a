# SPDX-License-Identifier: Apache-2.0
"""Each broken input gives one clear message, and no file is written."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
import onnx.parser
import opshift
import pytest
from onnx import TensorProto, helper, numpy_helper
from opshift import BadTarget, InvalidModel, convert_file, convert_version, plan
from text_models import model

GOOD = "(float[2,3] x) => (float[2,3] y) { a = Softmax<axis=1>(x) y = Neg(a) }"


def broken(change):
    proto = model(GOOD)
    change(proto)
    return proto


def without_import(m):
    m.ir_version = 7  # its opsets have two meanings of Softmax
    m.ClearField("opset_import")


def add_node(*arguments, **named):
    return lambda m: m.graph.node.append(helper.make_node(*arguments, **named))


CASES = {
    "no graph": (lambda m: m.ClearField("graph"), "the model has no graph"),
    "no import": (without_import, "imports no operator set"),
    "several imports": (
        lambda m: m.opset_import.add(domain="ai.onnx", version=11),
        "imports domain 'ai.onnx' at several versions (11, 12)",
    ),
    "no default import": (
        lambda m: m.opset_import[0].CopyFrom(helper.make_opsetid("acme", 1)),
        "Neg 'y' is of domain 'ai.onnx', which the model does not import",
    ),
    "domain not imported": (
        add_node("Run", ["x"], ["z"], domain="acme"),
        "Run 'z' is of domain 'acme', which the model does not import",
    ),
    "cycle": (
        lambda m: m.graph.node[0].input.__setitem__(0, "y"),
        "the graph has a cycle: y -> a -> y",
    ),
    "undefined": (
        lambda m: m.graph.node[0].input.__setitem__(0, "nope"),
        "Softmax 'a' reads 'nope', which is not defined",
    ),
    "written twice": (add_node("Neg", ["x"], ["a"]), "writes 'a' in graph 'g', which has been"),
    "input twice": (lambda m: m.graph.input.append(m.graph.input[0]), "input 'x' in graph 'g' is"),
    "initializer twice": (
        lambda m: m.graph.initializer.extend([_tensor("w"), _tensor("w", 2)]),
        "initializer 'w' in graph 'g' occurs twice",
    ),
    "output of nobody": (
        lambda m: m.graph.output.append(helper.make_tensor_value_info("q", 1, [1])),
        "no node writes output 'q' in graph 'g'",
    ),
    "unknown operator": (
        add_node("Sofmax", ["x"], ["z"]),
        "no operator of that name exists in ai.onnx 12; did you mean Softmax?",
    ),
    "later operator": (
        add_node("Gelu", ["x"], ["z"]),
        "it first appears in ai.onnx 20, but the model imports ai.onnx 12",
    ),
    "wrong attribute type": (
        lambda m: m.graph.node[0].attribute[0].CopyFrom(helper.make_attribute("axis", 1.0)),
        "attribute 'axis' is FLOAT, not INT",
    ),
    "unknown attribute": (
        lambda m: m.graph.node[0].attribute.append(helper.make_attribute("axes", 1)),
        "Softmax-11 has no attribute 'axes'",
    ),
    "missing attribute": (add_node("Cast", ["x"], ["z"]), "attribute 'to' is missing"),
    "too many inputs": (
        add_node("Neg", ["x", "x"], ["z"]),
        "has 2 inputs; at opset 12 it must have 1 to 1",
    ),
}


def _tensor(name, length=1):
    return numpy_helper.from_array(np.zeros(length, np.float32), name)


@pytest.mark.parametrize("case", CASES)
def test_a_broken_object(case):
    change, sentence = CASES[case]
    with pytest.raises(InvalidModel) as caught:
        convert_version(broken(change), 13)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("case", CASES)
def test_a_broken_file_leaves_nothing_behind(case, tmp_path):
    change, sentence = CASES[case]
    (tmp_path / "in.onnx").write_bytes(broken(change).SerializeToString())
    with pytest.raises(InvalidModel) as caught:
        convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 13)
    assert sentence in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["in.onnx"]


@pytest.mark.parametrize(
    "text", [b"", b"hello, this is no model", b"\x08\x08\x3a\xff\xff\x01", b"PK\x03\x04"]
)
def test_what_is_not_a_model(text, tmp_path):
    (tmp_path / "in.onnx").write_bytes(text)
    for call in (
        lambda: convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 13),
        lambda: convert_version(tmp_path / "in.onnx", 13),
        lambda: plan(tmp_path / "in.onnx", 13),
    ):
        with pytest.raises(InvalidModel, match=r"in\.onnx"):
            call()
    assert [p.name for p in tmp_path.iterdir()] == ["in.onnx"]


def test_every_truncation_of_a_model_is_answered(tmp_path):
    text = model(GOOD).SerializeToString()
    for length in range(len(text)):
        (tmp_path / "in.onnx").write_bytes(text[:length])
        try:
            convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 13)
        except InvalidModel:
            continue
        onnx.checker.check_model(tmp_path / "out.onnx")  # what was cut off was optional


def test_a_missing_data_file(tmp_path):
    proto = model("(float[2048] x) => (float[2048] y) { y = Add(x, w) }")
    weight = numpy_helper.from_array(np.zeros(2048, np.float32), "w")
    proto.graph.initializer.append(weight)
    onnx.save(proto, tmp_path / "in.onnx", save_as_external_data=True, location="in.data")
    (tmp_path / "in.data").unlink()
    with pytest.raises(InvalidModel, match=r"in\.data"):
        convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 13)
    assert [p.name for p in tmp_path.iterdir()] == ["in.onnx"]


def test_a_path_that_leaves_the_folder(tmp_path):
    proto = model("(float[2048] x) => (float[2048] y) { y = Add(x, w) }")
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros(2048, np.float32), "w"))
    (tmp_path / "model").mkdir()
    onnx.save(proto, tmp_path / "model" / "in.onnx", save_as_external_data=True, location="in.data")
    loaded = onnx.load(tmp_path / "model" / "in.onnx", load_external_data=False)
    loaded.graph.initializer[0].external_data[0].value = "../model/in.data"
    (tmp_path / "model" / "in.onnx").write_bytes(loaded.SerializeToString())
    with pytest.raises(InvalidModel, match=r"\.\./model/in\.data"):
        convert_file(tmp_path / "model" / "in.onnx", tmp_path / "model" / "out.onnx", 13)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (0, "the versions of ai.onnx begin at 1"),
        (-3, "the versions of ai.onnx begin at 1"),
        (1000, "no known release of onnx has it"),
        ("13", "the target of ai.onnx is '13'; give a whole number"),
        (True, "is True; give a whole number"),
        (13.0, "is 13.0; give a whole number"),
        ({"ai.onnx.ml": 2}, "the target names ai.onnx.ml, which the model does not import"),
        ({"acme": 2}, "the versions of 'acme' are not known"),
        ({"": 13, "ai.onnx": 14}, "the target has two versions of ai.onnx: 13 and 14"),
    ],
)
def test_a_target_that_cannot_be_meant(target, sentence):
    with pytest.raises(BadTarget) as caught:
        convert_version(model(GOOD), target)
    assert sentence in str(caught.value)


def test_a_target_above_the_installed_onnx_says_which_onnx_brings_it(monkeypatch):
    from opshift.opsets import schemas

    monkeypatch.setattr(schemas, "latest", lambda domain: 20)
    with pytest.raises(
        BadTarget, match=r"above 20, the newest .* \(onnx 1\.16 brings it\); give 20 or"
    ):
        convert_version(model(GOOD), 21)


@pytest.mark.parametrize("ir", [2, 99, "newest", True, None])
def test_an_ir_version_that_cannot_be_meant(ir):
    with pytest.raises(BadTarget, match=f"ir_version is {ir!r}; give 'auto', 'keep' or a number"):
        convert_version(model(GOOD), 13, ir_version=ir)


def test_a_model_without_the_default_domain_has_nothing_to_convert():
    text = '<ir_version: 8, opset_import: ["ai.onnx.ml" : 2]> g (float[2,2] x) => (float[2,2] y) { y = ai.onnx.ml.Normalizer(x) }'
    before = onnx.parser.parse_model(text)
    assert convert_version(before, 13) == before


def test_nodes_out_of_order_are_sorted_and_the_report_says_so(tmp_path):
    before = broken(lambda m: m.graph.node.reverse())
    assert convert_version(before, 13) == convert_version(model(GOOD), 13)
    (tmp_path / "in.onnx").write_bytes(before.SerializeToString())
    report = convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 13)
    assert report.notes == ("sorted the nodes, which were not in topological order",)


def in_another_file(tensor, folder, data):
    (folder / "data.bin").write_bytes(data)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="data.bin")


def test_a_tensor_has_its_data_in_one_place(tmp_path):
    proto = model("(float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { y = Mul(x, w) }")
    in_another_file(proto.graph.initializer[0], tmp_path, bytes(12))
    (tmp_path / "in.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(InvalidModel, match=r"'w' has its data in another file and in float_data"):
        convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 17)
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(("last", "legal"), [(3, True), (4, False)])
def test_indices_of_a_sparse_tensor_are_checked_in_another_file(last, legal, tmp_path):
    values = helper.make_tensor("w", onnx.TensorProto.FLOAT, [2], [1, 2])
    indices = onnx.TensorProto(name="i", data_type=onnx.TensorProto.INT64, dims=[2])
    in_another_file(indices, tmp_path, np.array([0, last], "<i8").tobytes())
    proto = model("(float[4] x) => (float[4] y) { y = Mul(x, w) }")
    proto.graph.sparse_initializer.add(values=values, indices=indices, dims=[4])
    (tmp_path / "in.onnx").write_bytes(proto.SerializeToString())
    if legal:
        convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 17)
    else:
        with pytest.raises(InvalidModel, match=r"index value at position \[1\] out of range"):
            convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 17)


@pytest.mark.parametrize(
    ("of_input", "of_tensor", "fits"),
    [
        ("float[3]", "float[3]", True), ("float[N]", "float[3]", True),
        ("float[3]", "float[1]", False), ("float[3]", "float[1,3]", False),
        ("float[3]", "double[3]", False),
    ],
)  # fmt: skip
def test_an_initializer_has_the_type_of_its_input(of_input, of_tensor, fits):
    """Runtimes do not load a model with such a contradiction, and `opshift check` names it."""
    text = "(float[2,3] x, {} w) => (float[2,3] y) <{} w = {{1, 1, 1}}> {{ y = Add(x, w) }}"
    proto = model(text.format(of_input, of_tensor), 13)
    tensor = proto.graph.initializer[0]
    tensor.CopyFrom(helper.make_tensor("w", tensor.data_type, tensor.dims, [1] * prod(tensor.dims)))
    assert bool(opshift.check(proto).found) is not fits
    if fits:
        convert_version(proto, 18)
    else:
        with pytest.raises(InvalidModel, match="input 'w' of graph 'g' is"):
            convert_version(proto, 18)


def test_a_sparse_tensor_has_the_indices_that_its_shape_tells():
    values = helper.make_tensor("w", onnx.TensorProto.FLOAT, [2], [1, 2])
    indices = onnx.TensorProto(data_type=onnx.TensorProto.INT64, dims=[2], raw_data=b"")
    proto = model("(float[4] x) => (float[4] y) { y = Mul(x, w) }")
    proto.graph.sparse_initializer.add(values=values, indices=indices, dims=[4])
    with pytest.raises(InvalidModel, match=r"indices of sparse tensor 'w' of shape \[2\] holds 0"):
        convert_version(proto, 17)


ALONG = "y = CumSum(x, a)"
CONSTANT = "a = Constant<value = int64 {9}>()"
IF = (
    "y = If(c) <then_branch = t () => (float[2] p) {{ {} p = CumSum(x, a) }},"
    " else_branch = e () => (float[2] q) {{ q = Neg(x) }}>"
)


def tensor_of(node):
    """Returns the first tensor of a node, or of a graph in the node."""
    held = (
        t
        for attribute in node.attribute
        for t in ([attribute.t] if attribute.HasField("t") else in_graph(attribute.g))
    )
    return next(held, None)


def in_graph(graph):
    return [*graph.initializer, *filter(None, map(tensor_of, graph.node))]


@pytest.mark.parametrize("outside", [False, True], ids=["inside", "outside"])
@pytest.mark.parametrize(
    ("text", "weights"),
    [
        (ALONG, "<int64 a = {9}>"),
        (CONSTANT + ALONG, ""),
        (IF.format(""), "<int64 a = {9}>"),
        (IF.format(CONSTANT), ""),
    ],
    ids=["initializer", "node", "initializer read in a graph", "node in a graph"],
)
def test_an_explanation_reads_every_constant(text, weights, outside, tmp_path):
    """The message has the same reason for each place of the wrong number."""
    proto = model(f"(float[2] x, bool c) => (float[2] y) {weights} {{ {text} }}", 11)
    (data,) = in_graph(proto.graph)
    if outside:
        (tmp_path / "w.bin").write_bytes(np.int64(9).tobytes())
        kept = data.name
        data.Clear()
        data.name, data.data_type, data.data_location = kept, 7, TensorProto.EXTERNAL
        data.external_data.add(key="location", value="w.bin")
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(InvalidModel, match="axis is 9, but the input has 1 dimensions"):
        convert_version(tmp_path / "m.onnx", 10)


def test_a_text_of_an_attribute_is_utf8():
    """If an attribute has a text that is not UTF-8, the model is at fault, not the adapter."""
    proto = model(
        "(float[1,1,4,4] x, float[1,4,4,2] g) => (float[1,1,4,4] y) { y = GridSample(x, g) }", 20
    )
    proto.graph.node[0].attribute.append(helper.make_attribute("mode", b"\xff"))
    with pytest.raises(InvalidModel, match="'y': attribute 'mode' is not UTF-8"):
        convert_version(proto, 16)
