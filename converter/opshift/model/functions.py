# SPDX-License-Identifier: Apache-2.0
"""Counts the nodes of a model as if all function calls were inlined, and inlines calls."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field

from opshift.errors import InvalidModel
from opshift.model.cycles import components, cycles
from opshift.model.document import function_id
from opshift.model.rename import rename_described, rename_own
from opshift.model.scope import FunctionId, call_id
from opshift.model.sweep import keep_only
from opshift.model.walk import (
    Container,
    graphs_directly_in,
    graphs_in_attribute,
    graphs_of,
    nodes_in,
    nodes_inside,
    tops,
)
from opshift.opsets import schemas
from opshift.protos import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto
from opshift.protos.copies import copy_of, replace_all
from opshift.records import dataclass

Fresh = Callable[[str], str]
MOST_NODES = 500_000  # the most nodes after inlining all calls; onnx's inference visits each
MOST_LEVELS = 1000  # the longest chain of functions that call each other; onnx uses the stack


def require_bounded(model: ModelProto) -> None:
    """Refuses a model whose inlined functions would have too many nodes for any tool.

    The calls are counted and not inlined, because a small file can expand to a graph of any size.
    """
    if model.functions:
        computing_nodes(model)


def computing_nodes(model: ModelProto) -> int:
    """Returns the number of nodes after inlining all calls.

    Constants do not count, because a graph may have them as initializers instead.
    """
    return _computing(_Body.of(model.graph.node), sizes_of(model.functions), "the graph")


def sizes_of(functions: Iterable[FunctionProto]) -> dict[FunctionId, int]:
    """Returns how many nodes, without constants, replace a call of each function."""
    bodies = {function_id(function): _Body.of(function.node) for function in functions}
    sizes: dict[FunctionId, int] = {}
    levels: dict[FunctionId, int] = {}
    for which in _callees_first(bodies):
        where = f"function {which[1]!r} of {which[0]!r}"
        sizes[which] = _computing(bodies[which], sizes, where)
        callees = bodies[which].calls
        levels[which] = 1 + max((levels.get(callee, 0) for callee in callees), default=0)
        if levels[which] > MOST_LEVELS:
            raise InvalidModel(
                f"{where} begins a chain of more than {MOST_LEVELS} calls of functions, too long"
                " for any tool; replace calls by their nodes"
            )
    return sizes


def calls_of(bodies: Mapping[FunctionId, FunctionProto]) -> dict[FunctionId, set[FunctionId]]:
    """Returns the functions that each function calls directly, also in its subgraphs."""
    return {
        which: {*map(call_id, nodes_in(body))} & bodies.keys() for which, body in bodies.items()
    }


def callers_of(
    calls: Mapping[FunctionId, Collection[FunctionId]],
) -> dict[FunctionId, list[FunctionId]]:
    """Returns the functions that call each function directly."""
    callers: dict[FunctionId, list[FunctionId]] = {}
    for which, callees in calls.items():
        for callee in callees:
            callers.setdefault(callee, []).append(which)
    return callers


def omitted_inputs(model: ModelProto) -> dict[FunctionId, set[str]]:
    """Returns the inputs of each function that some call omits, directly or through a caller."""
    bodies = functions_of(model)
    omitted: dict[FunctionId, set[str]] = {which: set() for which in bodies}
    waiting = [*tops(model)]
    while waiting:
        caller = waiting.pop()
        absent = {""}
        if isinstance(caller, FunctionProto):
            absent |= omitted[function_id(caller)]
        for call in nodes_in(caller):
            if (body := bodies.get(which := call_id(call))) is None:
                continue
            given = itertools.chain(call.input, itertools.repeat(""))
            new = {
                formal for formal, name in zip(body.input, given, strict=False) if name in absent
            }
            if new - omitted[which]:
                omitted[which] |= new
                waiting.append(body)
    return omitted


def recursion(calls: Mapping[FunctionId, Collection[FunctionId]]) -> Iterator[str]:
    """Yields an error for each function that calls itself, directly or through others."""
    circles = {callee: circle for circle in cycles(calls) for callee in circle}
    for start in sorted(circles):
        back = [callee for callee in calls[start] if callee in circles[start]]
        way = "" if start in back else f" through {min(back)[1]!r}"
        yield (
            f"function {start[1]!r} of {start[0]!r} calls itself{way}; ONNX has no recursion:"
            " remove a call, or write a Loop"
        )


def behind(
    calls: Mapping[FunctionId, Collection[FunctionId]], *starts: FunctionId
) -> set[FunctionId]:
    """Returns the functions that calls reach from some functions, directly or through others."""
    reached, waiting = set[FunctionId](), [*starts]
    while waiting:
        new = {*calls.get(waiting.pop(), ())} - reached
        reached |= new
        waiting += new
    return reached


def called(
    nodes: Iterable[NodeProto], calls: Mapping[FunctionId, Collection[FunctionId]]
) -> set[FunctionId]:
    """Returns the functions that nodes call: directly, in subgraphs, or through other functions."""
    every = (call_id(inner) for node in nodes for inner in (node, *nodes_inside(node)))
    direct = {which for which in every if which in calls}
    return direct | behind(calls, *direct)


@dataclass(slots=True)
class _Body:
    """The number of nodes of a graph or function, and the count of each operator and function."""

    nodes: int = 0
    calls: Counter[FunctionId] = field(default_factory=Counter)

    @staticmethod
    def of(nodes: Iterable[NodeProto]) -> _Body:
        body, waiting = _Body(), [nodes]
        while waiting:
            for node in waiting.pop():
                body.nodes += 1
                body.calls[call_id(node)] += 1
                waiting += [graph.node for _, graph in graphs_of(node)]
        return body


def _callees_first(bodies: Mapping[FunctionId, _Body]) -> Iterator[FunctionId]:
    """Yields each function after the functions that it calls; recursive functions by name."""
    for circle in components({which: body.calls for which, body in bodies.items()}):
        yield from sorted(circle)


def _computing(body: _Body, sizes: Mapping[FunctionId, int], where: str) -> int:
    """Counts the nodes of a body, without constants, after inlining its calls."""
    called = {which: count for which, count in body.calls.items() if which in sizes}
    nodes = sum(count * sizes[which] for which, count in called.items())
    if nodes > MOST_NODES:
        raise InvalidModel(
            f"the function calls in {where} stand for {nodes} nodes after inlining, and at most"
            f" {MOST_NODES} are allowed; call the functions less often"
        )
    return nodes + body.nodes - sum(called.values()) - body.calls["", "Constant", ""]


def functions_of(model: ModelProto) -> dict[FunctionId, FunctionProto]:
    """Returns the functions of a model, by domain, name and overload."""
    return {function_id(function): function for function in model.functions}


def inline_functions(
    model: ModelProto, functions: Collection[FunctionId], fresh: Fresh
) -> set[FunctionId]:
    """Replaces all calls of some functions by their nodes, at any depth, and removes the functions.

    Returns the functions that were called. Calls of a function that calls itself stay.
    """
    if not functions:
        return set()
    bodies = {which: body for which, body in functions_of(model).items() if which in functions}
    recursive = set[FunctionId]().union(*cycles(calls_of(bodies)))
    inlined = {which: body for which, body in bodies.items() if which not in recursive}
    called = set[FunctionId]()
    for container in tops(model):
        if isinstance(container, FunctionProto) and function_id(container) in bodies:
            continue
        here = _inline_in(container, inlined, fresh)
        for which in sorted(here):
            _import(container if isinstance(container, FunctionProto) else model, bodies[which])
        called |= here
    keep_only(model.functions, lambda one: function_id(one) not in bodies)
    return called


def _inline_in(
    container: Container, bodies: Mapping[FunctionId, FunctionProto], fresh: Fresh
) -> set[FunctionId]:
    """Inlines the calls in a list of nodes and its subgraphs; returns the called functions."""
    called, nodes, waiting = set[FunctionId](), list[NodeProto](), [*reversed(container.node)]
    for graph in graphs_directly_in(container):
        called |= _inline_in(graph, bodies, fresh)
    is_changed = False
    while waiting:
        node = waiting.pop()
        if (body := bodies.get(call_id(node))) is None:
            nodes.append(node)
            continue
        is_changed = True
        called.add(call_id(node))
        written = _written_out(node, body, container, fresh)
        for one in written:
            for _, graph in graphs_of(one):
                called |= _inline_in(graph, bodies, fresh)
        waiting += reversed(written)
    if is_changed:
        replace_all(container.node, nodes)
    return called


def _written_out(
    call: NodeProto, body: FunctionProto, container: Container, fresh: Fresh
) -> list[NodeProto]:
    names = {
        formal: call.input[i] if i < len(call.input) else "" for i, formal in enumerate(body.input)
    }
    bound = {a.name: a for a in body.attribute_proto}
    bound.update((a.name, a) for a in call.attribute)
    written: list[NodeProto] = []
    new: dict[str, str] = {}
    for proto in body.node:
        new.update((name, fresh(proto.op_type)) for name in proto.output if name)
    outputs = dict(zip(body.output, call.output, strict=False))
    new.update((formal, actual) for formal, actual in outputs.items() if actual and formal in new)
    names.update(new)
    prefix = fresh(_word(call.name or call.op_type))
    for proto in body.node:
        copy = copy_of(proto)
        bind_attributes(copy, bound)
        freshen(copy, names, fresh)
        if copy.name:
            copy.name = f"{prefix}_{_word(copy.name)}"
        written.append(copy)
    for formal, actual in outputs.items():
        if actual and formal not in names:
            raise InvalidModel(f"output {formal!r} of function {body.name!r} is written by no node")
        if actual and formal not in new:  # the function returns an input unchanged
            written.append(NodeProto(op_type="Identity", input=[names[formal]], output=[actual]))
    for info in body.value_info:
        if isinstance(container, GraphProto) and info.name in new:
            container.value_info.append(info)
            container.value_info[-1].name = new[info.name]
    return written


def _word(name: str) -> str:
    """Replaces the characters of a name that a C identifier cannot have."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def freshen(node: NodeProto, names: dict[str, str], fresh: Fresh) -> None:
    """Renames values by `names`, and gives new names to all values that subgraphs define."""
    rename_own(node, names)
    for _, graph in graphs_of(node):
        _freshen_graph(graph, names, fresh)


def _freshen_graph(graph: GraphProto, outer: dict[str, str], fresh: Fresh) -> None:
    graph.name = fresh(_word(graph.name))
    names = dict(outer)
    for info in graph.input:
        names[info.name] = fresh("in")
    for tensor in graph.initializer:
        names.setdefault(tensor.name, fresh("const"))
    for sparse in graph.sparse_initializer:
        names[sparse.values.name] = fresh("const")
    for node in graph.node:
        names.update((name, fresh(node.op_type)) for name in node.output if name)
    for node in graph.node:
        freshen(node, names, fresh)
    rename_described(graph, names)


def _import(container: FunctionProto | ModelProto, body: FunctionProto) -> None:
    present = {schemas.normal(i.domain) for i in container.opset_import}
    for opset in body.opset_import:
        if schemas.normal(opset.domain) not in present:
            container.opset_import.add(domain=opset.domain, version=opset.version)


def bind_attributes(node: NodeProto, bound: dict[str, AttributeProto]) -> None:
    """Replaces references to a function's attributes by the values in the call, at any depth."""
    attributes = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            actual = bound.get(attribute.ref_attr_name)
            if actual is None:
                continue
            value = copy_of(actual)
            value.name = attribute.name
            attributes.append(value)
        else:
            for graph in graphs_in_attribute(attribute):
                for inner in graph.node:
                    bind_attributes(inner, bound)
            attributes.append(attribute)
    if any(attribute.ref_attr_name for attribute in node.attribute):
        replace_all(node.attribute, attributes)
