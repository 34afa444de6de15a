# SPDX-License-Identifier: Apache-2.0
"""Evaluates a graph node by node; each operator version has an engine that is trusted with it."""

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from opshift.model.arrays import to_array
from opshift.model.walk import reads
from opshift.protos import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
)
from opshift.protos.whole import defs
from opshift.verify.oracle import trust
from opshift.verify.oracle.kernels_retired import RETIRED
from opshift.verify.oracle.strict_schema import (
    attribute_value,
    check_inputs,
    check_outputs,
    dense,
    prepare,
)
from opshift.verify.oracle.values import (
    OracleError,
    Value,
    declared,
    dtype_of,
    fits,
    tensor,
    type_of,
)

Seen = Callable[[str, Value], None]
Load = Callable[[TensorProto], np.ndarray]
ABSENT = object()  # the value of a function's input that the call omits


def evaluate(
    model: ModelProto, inputs: Mapping[str, Value], *,
    seed: int = 0, seen: Seen | None = None, load: Load = to_array,
) -> list[Value]:  # fmt: skip
    """Returns the outputs of a model, in order; raises OracleError if a version forbids a node.

    `seen` is called with the name and value of each output of each node, also in subgraphs. `load`
    reads an initializer before its first use. A value is freed after the last node that reads it.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    opsets = _imports(model.opset_import)
    frame = Frame(opsets, ChainMap(), {}, functions, Draws(seed), seen, load)
    names = {info.name for info in model.graph.input}
    names |= {initializer.name for initializer in model.graph.initializer}
    if unknown := sorted(inputs.keys() - names):
        raise OracleError(f"the model has no input {', '.join(unknown)}")
    arrays = (np.ndarray, np.generic)
    values = {name: tensor(v) if isinstance(v, arrays) else v for name, v in inputs.items()}
    return frame.graph(model.graph, values, _last_reads(model.graph))


def _last_reads(graph: GraphProto) -> dict[int, list[str]]:
    """Returns, for each node position, the values that no later node reads."""
    last: dict[str, int] = {}
    for at, node in enumerate(graph.node):
        last |= dict.fromkeys((*reads(node), *node.output), at)
    outputs, by_position = {info.name for info in graph.output}, dict[int, list[str]]()
    for name, at in last.items():
        if name not in outputs:
            by_position.setdefault(at, []).append(name)
    return by_position


class Draws:
    """Generates random numbers that depend only on seed, distribution, shape and call count."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn: dict[tuple[Any, ...], int] = {}

    def stream(self, kind: str, shape: Sequence[int], seed: float | None) -> np.random.Generator:
        """Returns a generator for the next draw of this distribution and shape."""
        seed = None if seed is None else float(seed)
        key = (kind, tuple(shape), seed)
        occurrence = self._drawn[key] = self._drawn.get(key, 0) + 1
        words = f"{self._seed} {kind} {tuple(shape)} {seed} {occurrence}".encode()
        return np.random.default_rng(list(words))


class Frame:
    """One scope: the visible values, the imports, and the attributes that nodes reference."""

    __slots__ = ("_functions", "_load", "_opsets", "_references", "_seen", "draws", "values")

    def __init__(
        self,
        opsets: Mapping[str, int],
        values: ChainMap[str, Value],
        references: Mapping[str, AttributeProto],
        functions: Mapping[tuple[str, str, str], FunctionProto],
        draws: Draws,
        seen: Seen | None,
        load: Load,
    ) -> None:
        self._opsets = opsets
        self._references = references
        self._functions = functions
        self.values = values
        self.draws = draws
        self._seen = seen
        self._load = load

    def opset(self, domain: str) -> int:
        """Returns the version of a domain that this scope imports."""
        if domain not in self._opsets:
            raise OracleError(f"domain {domain!r} is not imported")
        return self._opsets[domain]

    def subgraph(self, graph: GraphProto, inputs: Sequence[Value]) -> list[Value]:
        """Returns the outputs of a subgraph, which can read every value of this scope."""
        if len(inputs) != len(graph.input):
            raise OracleError(f"body {graph.name!r} takes {len(graph.input)} inputs")
        values = self.values.new_child()
        inner = Frame(
            self._opsets, values, self._references, self._functions, self.draws, self._seen,
            self._load,
        )  # fmt: skip
        names = (info.name for info in graph.input)
        return inner.graph(graph, dict(zip(names, inputs, strict=True)))

    def graph(
        self, graph: GraphProto, inputs: Mapping[str, Value],
        last_reads: Mapping[int, Sequence[str]] = MappingProxyType({}),
    ) -> list[Value]:  # fmt: skip
        """Returns the outputs of `graph`, evaluated in this scope."""
        for initializer in graph.initializer:
            self.values[initializer.name] = initializer
        for sparse in graph.sparse_initializer:
            self.values[sparse.values.name] = dense(sparse)
        self.values.update(inputs)
        for info in graph.input:
            if info.name not in self.values.maps[0]:
                raise OracleError(f"input {info.name!r} is missing")
            value = self.values[info.name]
            stands_for = isinstance(value, TensorProto)  # an initializer that no node has read yet
            _check_declared(info, np.empty(0, dtype_of(value.data_type)) if stands_for else value)
        self._walk(graph.node, last_reads)
        for info in graph.output:
            _check_declared(info, self._value(info.name))
        return [self._value(info.name) for info in graph.output]

    def expand(self, function: FunctionProto, node: NodeProto, inputs: list[Value]) -> list[Value]:
        """Returns the outputs of a function's body, which can read only its own inputs."""
        attributes = {attribute.name: attribute for attribute in node.attribute}
        defaults = {attribute.name: attribute for attribute in function.attribute_proto}
        if unknown := sorted(attributes.keys() - set(function.attribute) - defaults.keys()):
            raise OracleError(f"function {function.name} has no attribute {', '.join(unknown)}")
        if len(inputs) > len(function.input) or len(node.output) > len(function.output):
            raise OracleError(f"function {function.name} is called with too many values")
        values = ChainMap[str, Value](dict.fromkeys(function.input, ABSENT))
        values.update(
            (formal, value)
            for formal, actual, value in zip(function.input, node.input, inputs, strict=False)
            if actual
        )
        opsets = _imports(function.opset_import)
        inner = Frame(
            opsets,
            values,
            defaults | attributes,
            self._functions,
            self.draws,
            self._seen,
            self._load,
        )
        inner._walk(function.node)
        return [inner._value(name) for name in function.output[: len(node.output)]]

    def _walk(
        self, nodes: Sequence[NodeProto],
        last_reads: Mapping[int, Sequence[str]] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        mine, computed = self.values.maps[0], set[str]()
        for at, node in enumerate(nodes):
            results = self._node(node)
            for name, result in zip(node.output, results, strict=False):
                if name in mine or name in computed:
                    raise OracleError(f"value {name!r} is assigned twice")
                if name:
                    mine[name] = result
                    computed.add(name)
                    if self._seen is not None:
                        self._seen(name, result)
            for name in last_reads.get(at, ()):
                mine.pop(name, None)

    def _node(self, node: NodeProto) -> Sequence[Value]:
        node = self._resolved(node)
        inputs = [None if name == "" else self._value(name) for name in node.input]
        function = self._functions.get((node.domain, node.op_type, node.overload))
        if function is not None:
            return self.expand(function, node, inputs)
        domain = "" if node.domain == "ai.onnx" else node.domain
        if domain != node.domain:
            node = _renamed(node, domain)
        if not domain and node.op_type in RETIRED and not defs.has(node.op_type, self.opset("")):
            attributes = {a.name: attribute_value(a) for a in node.attribute}
            return [tensor(RETIRED[node.op_type](attributes, *inputs))]
        call = prepare(node.SerializeToString(), self.opset(domain))
        bound = check_inputs(call, inputs)
        try:
            results = trust.judge(call)(self, call, *inputs)
        except OracleError:
            raise
        except Exception as error:
            raise OracleError(f"{call.op}-{call.since}: {type(error).__name__}: {error}") from error
        if not isinstance(results, tuple):
            results = (results,)
        results = [tensor(r) if isinstance(r, np.ndarray | np.generic) else r for r in results]
        check_outputs(call, results, bound)
        return results

    def _value(self, name: str) -> Value:
        try:
            value = self.values[name]
        except KeyError:
            raise OracleError(f"value {name!r} is used before it exists") from None
        if isinstance(value, TensorProto):  # an initializer that no node has read yet
            home = next(scope for scope in self.values.maps if name in scope)
            value = home[name] = tensor(self._load(value))
        return value

    def _resolved(self, node: NodeProto) -> NodeProto:
        """Returns a node with the attributes and without the inputs that the call lacks."""
        absent = [i for i, name in enumerate(node.input) if self.values.get(name) is ABSENT]
        if not absent and not any(attribute.ref_attr_name for attribute in node.attribute):
            return node
        resolved = NodeProto()
        resolved.CopyFrom(node)
        for i in absent:
            resolved.input[i] = ""
        del resolved.attribute[:]
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                source = self._references.get(attribute.ref_attr_name)
                if source is None:
                    continue
                resolved.attribute.append(source)
                resolved.attribute[-1].name = attribute.name
            else:
                resolved.attribute.append(attribute)
        return resolved


def _imports(entries: Sequence[Any]) -> dict[str, int]:
    return {"" if e.domain == "ai.onnx" else e.domain: e.version for e in entries}


def _renamed(node: NodeProto, domain: str) -> NodeProto:
    renamed = NodeProto()
    renamed.CopyFrom(node)
    renamed.domain = domain
    return renamed


def _check_declared(info: ValueInfoProto, value: Value) -> None:
    expected = declared(info.type)
    if not fits(type_of(value), expected):
        raise OracleError(f"{info.name!r} is declared {expected} but is {type_of(value)}")
