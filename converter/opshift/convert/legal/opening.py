# SPDX-License-Identifier: Apache-2.0
"""The rules that a model must satisfy before it can be opened."""

from __future__ import annotations

from opshift.convert.legal.model_rules import unknown_version
from opshift.errors import InvalidModel
from opshift.model import functions
from opshift.model.arrays import refuse_torn
from opshift.model.bytes import foreign
from opshift.model.bytes.external import location_of, require_inside
from opshift.model.bytes.outline import Content, read_as
from opshift.model.walk import items, named, nodes_in, tensors
from opshift.model.weights import Weights
from opshift.protos import IR_VERSION, ModelProto, SparseTensorProto, TensorProto

SPARSE_IS_FATAL = IR_VERSION < 11  # onnx 1.17 crashes on indices without their payload
_REFERENCE = b"\xaa\x01"  # the protobuf tag of the field ref_attr_name


def header(model: ModelProto) -> None:
    """Raises InvalidModel for a model that cannot be opened."""
    if not model.HasField("graph"):
        raise InvalidModel(foreign.NO_GRAPH)
    if not model.opset_import:
        raise InvalidModel("the model imports no operator set; add an opset_import")
    if not all(function.name for function in model.functions):
        raise InvalidModel("a function of the model has no name; give it one")
    functions.require_bounded(model)


def references(model: ModelProto, data: bytes) -> None:
    """Raises InvalidModel for an attribute reference outside of a function."""
    if _REFERENCE not in data or not read_as(Content, data).references:
        return
    for node in nodes_in(model.graph):
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                raise InvalidModel(
                    f"{named(node)}: attribute {attribute.name!r} refers to an attribute of a"
                    " function, but the node is in no function; give it a value"
                )


def survivable(model: ModelProto, data: bytes) -> None:
    """Raises InvalidModel for a model that would crash onnx's library."""
    references(model, data)
    if SPARSE_IS_FATAL:
        sparse_indices(model)


def known_versions(domain: str, present: list[int]) -> None:
    """Raises InvalidModel for an imported version that no installed package describes."""
    for version in present:
        if (sentence := unknown_version(domain, version)) is not None:
            raise InvalidModel(f"the model imports {sentence}")


def external_data(model: ModelProto) -> None:
    """Raises InvalidModel for external data without a type or outside of the model's folder."""
    for tensor in tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            require_inside(location_of(tensor), tensor.name)
            if not tensor.data_type:
                raise InvalidModel(f"tensor {tensor.name!r} has no element type")


def sparse_indices(model: ModelProto) -> None:
    """Raises InvalidModel for sparse indices without their payload."""
    for item in items(model):
        if isinstance(item, SparseTensorProto) and not Weights.is_stub(item.indices):
            refuse_torn(item.indices, f"the indices of sparse tensor {item.values.name!r}")
