# SPDX-License-Identifier: Apache-2.0
"""Rewrites the content that an older IR version lacks."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import TYPE_CHECKING

from opshift import versions
from opshift.codes.refusals import Why
from opshift.convert.ir import widen
from opshift.convert.ir.places import Message
from opshift.errors import InvalidModel, Refusal
from opshift.model import functions, imports
from opshift.model.arrays import dense, from_array
from opshift.model.document import function_id
from opshift.model.replace import constant_node
from opshift.model.scope import FunctionId, call_id, tensor_type
from opshift.model.sweep import keep_only
from opshift.model.walk import containers, graphs_of, nodes, nodes_in, tensors
from opshift.model.weights.inplace import delete_others
from opshift.opsets import schemas
from opshift.protos import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
    onnx_checker,
)
from opshift.records import dataclass
from opshift.text import size

if TYPE_CHECKING:
    from opshift.model.weights import Weights


def lower(
    model: ModelProto,
    weights: Weights,
    fresh: Callable[[str], str],
    to: int,
    rewrites: Iterable[Callable[[Lowering], None]],
    by_value: widen.Rules,
) -> list[str]:
    """Rewrites content of a model for the older IR version `to`, in place; returns the notes."""
    work = Lowering(model, weights, fresh, to, by_value)
    for rewrite in dict.fromkeys(rewrites):  # kinds of content may share a rewrite
        rewrite(work)
    return [f"{what} ({count})" for what, count in work.done.items()]


OTHER_CONSTANTS = 9  # the opset from which on Constant supports every element type
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)


@dataclass(slots=True)
class Lowering:
    """The rewriting of one model for an older IR version, with a count of each kind of rewrite."""

    model: ModelProto
    weights: Weights
    fresh: Callable[[str], str]
    to: int
    by_value: widen.Rules
    done: Counter[str] = field(default_factory=Counter)

    # -- functions -----------------------------------------------------------------------------

    def inline_functions(self) -> None:
        """Inlines all functions, and counts those that nothing calls."""
        for function in self.model.functions:
            _refuse_other_meaning(self.model, function)
        domains = {schemas.normal(function.domain) for function in self.model.functions}
        every = functions.functions_of(self.model)
        for error in functions.recursion(functions.calls_of(every)):
            raise InvalidModel(error)
        called = functions.inline_functions(self.model, every, self.fresh)
        for which in every:
            self.done["functions inlined" if which in called else "uncalled functions removed"] += 1
        self._forget_imports(domains)

    def _forget_imports(self, domains: set[str]) -> None:
        """Removes imports of domains that no node uses."""
        used = {schemas.normal(node.domain) for node in nodes(self.model)}
        for entry in list(self.model.opset_import):
            if schemas.normal(entry.domain) in domains - used:
                self.model.opset_import.remove(entry)

    def rename_overloads(self) -> None:
        """Renames each overload of a function, so that its function name is unique."""
        names: dict[FunctionId, str] = {}
        used_names = {(schemas.normal(node.domain), node.op_type) for node in nodes(self.model)}
        used_names |= {function_id(function)[:2] for function in self.model.functions}
        for function in self.model.functions:
            which = function_id(function)
            if not which[2]:
                continue
            name = f"{function.name}_{which[2]}"
            while (which[0], name) in used_names or schemas.history(which[0], name):
                name += "_"
            used_names.add((which[0], name))
            names[which] = function.name = name
            function.ClearField("overload")
            self.done["overloads renamed"] += 1
        if names:
            for node in nodes(self.model):
                if (renamed := names.get(call_id(node))) is not None:
                    node.op_type = renamed
                    node.ClearField("overload")

    def write_defaults(self) -> None:
        """Adds the default attributes of a function to the calls that do not set them."""
        functions = {
            function_id(f): f for f in self.model.functions if getattr(f, "attribute_proto", ())
        }
        if not functions:
            return
        calls = [node for node in nodes(self.model) if call_id(node) in functions]
        unsure = {call_id(call) for call in calls if any(a.ref_attr_name for a in call.attribute)}
        for call in calls:
            if (which := call_id(call)) not in unsure:
                stated = {attribute.name for attribute in call.attribute}
                defaults = functions[which].attribute_proto
                call.attribute.extend(a for a in defaults if a.name not in stated)
        for which in functions.keys() - unsure:
            function = functions[which]
            function.attribute.extend(a.name for a in function.attribute_proto)
            self.done["default attributes of functions added to their calls"] += 1
            function.ClearField("attribute_proto")

    # -- tensors -------------------------------------------------------------------------------

    def widen_constants(self) -> None:
        if count := widen.widen(self.model, self.weights, self.to, self.by_value):
            self.done["constants converted to a wider type"] += count

    def densify(self) -> None:
        """Replaces sparse initializers and constants by dense tensors of the same name."""
        for container in containers(self.model):
            if isinstance(container, GraphProto):
                written = [self._dense(sparse) for sparse in container.sparse_initializer]
                container.initializer.extend(tensor for tensor in written if tensor)
                delete_others(
                    container.sparse_initializer,
                    [i for i, tensor in enumerate(written) if tensor is None],
                )
        for node in nodes(self.model):
            if node.op_type == "Constant" and schemas.normal(node.domain) == "":
                for attribute in node.attribute:
                    self._densify_attribute(attribute)

    def _densify_attribute(self, attribute: AttributeProto) -> None:
        if attribute.type != AttributeProto.SPARSE_TENSOR or attribute.ref_attr_name:
            return
        tensor = self._dense(attribute.sparse_tensor)
        if tensor is not None:
            attribute.ClearField("sparse_tensor")
            attribute.name, attribute.type = "value", AttributeProto.TENSOR
            attribute.t.CopyFrom(tensor)

    def _dense(self, sparse: SparseTensorProto) -> TensorProto | None:
        """Returns the dense tensor, or None if numpy cannot represent the element type."""
        if sparse.values.data_type == TensorProto.STRING:
            return None
        values, indices = self.weights.load(sparse.values), self.weights.load(sparse.indices)
        tensor = from_array(dense(values, indices, sparse.dims), sparse.values.name)
        if tensor.data_type != sparse.values.data_type:
            return None
        self.done["sparse tensors made dense"] += 1
        return tensor

    def load_external_data(self) -> None:
        """Moves external data into the model file, if the result stays below 2 GB."""
        external = [t for t in tensors(self.model) if t.data_location == TensorProto.EXTERNAL]
        needed = self.weights.size_with(self.model) if external else 0
        if needed > onnx_checker.LARGEST:
            raise Refusal(
                Why.IR_TOO_LOW,
                f"external data needs IR 4, and the {size(needed)} of this model exceed the limit"
                " of 2 GB for one file",
            )
        for tensor in external:
            region = self.weights.locate(tensor)
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = region.read()
            self.done["external tensors moved into the model"] += 1

    def initializers_as_inputs(self) -> None:
        """Makes initializers of the main graph its inputs, and those of subgraphs Constants."""
        main = self.model.graph
        input_names = {value.name for value in main.input}
        for tensor in main.initializer:
            if tensor.name not in input_names:
                main.input.append(_input_of(tensor))
                self.done["initializers made graph inputs"] += 1
        for node in nodes(self.model):
            for _, graph in graphs_of(node):
                self._initializers_as_constants(graph)

    def _initializers_as_constants(self, graph: GraphProto) -> None:
        inputs = {value.name for value in graph.input}
        moving = [tensor for tensor in graph.initializer if tensor.name not in inputs]
        if not moving:
            return
        constants = [self._node_of(tensor) for tensor in moving]
        keep_only(graph.initializer, lambda tensor: tensor.name in inputs)
        places = itertools.chain(
            range(len(constants), len(constants) + len(graph.node)), range(len(constants))
        )
        graph.node.extend(constants)
        graph.node.sort(key=lambda _: next(places))
        self.done["initializers of subgraphs replaced by Constant nodes"] += len(constants)

    def _node_of(self, tensor: TensorProto) -> NodeProto:
        """Returns a node that produces a tensor in a subgraph; old Constants are float only."""
        opset = imports.versions(self.model).get("", OTHER_CONSTANTS)
        if tensor.data_type in _FLOATS or opset >= OTHER_CONSTANTS:
            return constant_node(tensor, tensor.name)
        main, outside = self.model.graph, TensorProto()
        outside.CopyFrom(tensor)
        outside.name = self.fresh(tensor.name)
        main.initializer.append(outside)
        main.input.append(_input_of(outside))
        return NodeProto(op_type="Identity", input=[outside.name], output=[tensor.name])

    # -- content that does not affect results ---------------------------------------------------

    def drop_training(self) -> None:
        """Removes the training information, and the imports that only its graphs use."""
        if self.model.training_info:
            self.model.ClearField("training_info")
            self._forget_imports({versions.TRAINING})
            self.done["removed: training information"] += 1

    def clear(self, holders: Iterable[Message], name: str, what: str) -> None:
        """Removes a field from all messages in `holders` that have it."""
        for proto in holders:
            if getattr(proto, name, None):
                proto.ClearField(name)
                self.done[f"removed: {what}"] += 1


def _refuse_other_meaning(model: ModelProto, function: FunctionProto) -> None:
    """Refuses to inline a function whose operators mean something else at the model's imports."""
    outer, inner = imports.versions(model), imports.versions(function)
    if all(outer.get(domain, version) == version for domain, version in inner.items()):
        return
    for node in nodes_in(function):
        domain = schemas.normal(node.domain)
        if domain in inner and domain in outer:
            inside = schemas.schema(domain, node.op_type, inner[domain])
            outside = schemas.schema(domain, node.op_type, outer[domain])
            if inside != outside:
                raise Refusal(
                    Why.NOT_EXPRESSIBLE,
                    f"function {function.name!r} imports {domain or 'ai.onnx'} {inner[domain]}, but"
                    f" the model imports {outer[domain]}, in which {node.op_type} means"
                    " something else; convert both to one version first",
                )


def _input_of(tensor: TensorProto) -> ValueInfoProto:
    return ValueInfoProto(name=tensor.name, type=tensor_type(tensor))
