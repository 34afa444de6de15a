# SPDX-License-Identifier: Apache-2.0
"""The rules that a model must meet before opshift opens it."""

from __future__ import annotations

import pytest
from onnx import ModelProto, SparseTensorProto, TensorProto, helper
from opshift.convert.legal import opening
from opshift.errors import InvalidModel
from opshift.model import weights
from opshift.opsets import schemas
from text_models import model

CALLING = """(float[2] x) => (float[2] y) { y = f.F(x) }
    <domain: "f", opset_import: ["": 13]> F <alpha> (a) => (b) { b = Elu<alpha: float = @alpha>(a) }"""


def calling() -> ModelProto:
    return model(CALLING, 13, more=', "f": 1')


def refused(check, *words) -> str:
    """Returns the message of the refusal; empty if the model is not refused."""
    try:
        check(*words)
    except InvalidModel as invalid:
        return str(invalid)
    return ""


def test_a_model_has_a_graph_imports_and_names_of_functions():
    assert refused(opening.header, calling()) == ""
    for change, words in (
        (lambda m: m.ClearField("graph"), "has no graph"),
        (lambda m: m.ClearField("opset_import"), "imports no operator set"),
        (lambda m: m.functions[0].ClearField("name"), "function of the model has no name"),
    ):
        proto = calling()
        proto.functions.add().CopyFrom(proto.functions[0])
        change(proto)
        assert words in refused(opening.header, proto)


def test_only_nodes_in_functions_refer_to_attributes_of_a_function():
    proto = calling()
    assert refused(opening.references, proto, proto.SerializeToString()) == ""
    proto.graph.node[0].attribute.add(name="plain", type=1, f=1.0)
    assert refused(opening.references, proto, proto.SerializeToString()) == ""
    proto.graph.node[0].attribute.add(name="alpha", type=1, ref_attr_name="beta")
    for check in (opening.references, opening.survivable):
        assert "F 'y': attribute 'alpha' refers" in refused(check, proto, proto.SerializeToString())


def test_an_imported_version_is_known():
    newest = schemas.latest("") or 0
    assert refused(opening.known_versions, "", [1, newest]) == ""
    assert refused(opening.known_versions, "unknown", [1, newest + 1]) == ""
    assert "ai.onnx 0" in refused(opening.known_versions, "", [1, 0])
    assert f"ai.onnx {newest + 1}" in refused(opening.known_versions, "", [newest + 1])


@pytest.mark.parametrize(
    ("location", "kind", "words"),
    [
        ("w.bin", TensorProto.FLOAT, ""), ("../w.bin", TensorProto.FLOAT, "not inside"),
        ("w.bin", TensorProto.UNDEFINED, "'w' has no element type"),
    ],
)  # fmt: skip
def test_data_files_are_inside_the_folder_and_have_an_element_type(location, kind, words):
    proto = calling()
    tensor = TensorProto(name="w", dims=[2], data_type=kind, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    proto.graph.initializer.append(tensor)
    assert words in refused(opening.external_data, proto)
    assert bool(words) == bool(refused(opening.external_data, proto))
    tensor.ClearField("data_location")
    proto.graph.initializer[0].CopyFrom(tensor)
    assert refused(opening.external_data, proto) == ""


def sparse(proto: ModelProto) -> TensorProto:
    """Adds a sparse tensor to a model, and returns the indices of the tensor."""
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    indices = helper.make_tensor("", TensorProto.INT64, [2], [0, 1])
    one = SparseTensorProto(values=values, indices=indices, dims=[2])
    proto.graph.sparse_initializer.append(one)
    return proto.graph.sparse_initializer[0].indices


@pytest.mark.parametrize("is_fatal", [False, True])
def test_indices_have_their_payload(monkeypatch, is_fatal):
    monkeypatch.setattr(opening, "SPARSE_IS_FATAL", is_fatal)
    proto = calling()
    indices = sparse(proto)
    assert refused(opening.sparse_indices, proto) == ""
    indices.int64_data.pop()
    assert "indices of sparse tensor 'w'" in refused(opening.sparse_indices, proto)
    told = refused(opening.survivable, proto, proto.SerializeToString())
    assert bool(told) == is_fatal


def test_indices_that_are_elsewhere_are_not_looked_at():
    proto = calling()
    indices = sparse(proto)
    indices.dims[:] = [4096]
    indices.ClearField("int64_data")
    indices.raw_data = bytes(8 * 4096)
    skeleton, _ = weights.carve_model(proto)
    assert weights.Weights.is_stub(skeleton.graph.sparse_initializer[0].indices)
    assert refused(opening.sparse_indices, skeleton) == ""
