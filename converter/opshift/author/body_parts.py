# SPDX-License-Identifier: Apache-2.0
"""Splits a long function into functions of a few nodes, to make its inference faster.

A call of the function becomes one call for each part; each call passes on the values that later
parts read. A part that reads a Constant has a copy of the Constant, because onnx does not know the
constants among the inputs of a call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from opshift.model.functions import functions_of
from opshift.model.scope import FunctionId, call_id
from opshift.model.walk import graphs_of, reads
from opshift.protos import FunctionProto, GraphProto, ModelProto, NodeProto

CONSTANT = "", "Constant", ""


class FunctionInParts:
    """A long function, split into a chain of shorter functions."""

    def __init__(self, body: FunctionProto, prefix: str, graphs: int) -> None:
        self.body = body
        self.functions = [*_parts(body, prefix, graphs)]

    def fits(self, call: NodeProto) -> bool:
        """Returns whether the counts of inputs and outputs of a call fit the function."""
        body = self.body
        return len(call.input) <= len(body.input) and len(call.output) == len(body.output)

    def calls(self, call: NodeProto, prefix: str) -> Iterator[NodeProto]:
        """Yields the calls of the parts that replace a call of the function."""
        names = dict(zip(self.body.input, call.input, strict=False))
        wanted = dict(zip(self.body.output, call.output, strict=False))
        for part in self.functions:
            made = NodeProto()
            made.CopyFrom(call)
            made.op_type = part.name
            made.input[:] = [names.get(name, "") for name in part.input]
            made.output[:] = [wanted.get(name) or prefix + name for name in part.output]
            names.update(zip(part.output, made.output, strict=True))
            yield made


def in_parts(
    model: ModelProto, is_long: Callable[[FunctionProto], bool], prefix: str, graphs: int
) -> dict[FunctionId, FunctionInParts]:
    """Splits each long function of a model into parts with a few subgraphs."""
    return {
        which: FunctionInParts(body, f"{prefix}{number}_", graphs)
        for number, (which, body) in enumerate(functions_of(model).items())
        if is_long(body) and _has_one_writer_each(body)
    }


def cut(model: ModelProto, parts: Mapping[FunctionId, FunctionInParts], prefix: str) -> ModelProto:
    """Copies a model, and calls the parts in place of long functions, except inside subgraphs."""
    made = ModelProto()
    made.CopyFrom(model)
    for body in parts.values():
        made.functions.extend(body.functions)
    _replace_calls(made.graph, parts, prefix)
    for function in made.functions:
        _replace_calls(function, parts, prefix)
    return made


def join(
    found: ModelProto, model: ModelProto, parts: Mapping[FunctionId, FunctionInParts], prefix: str
) -> None:
    """Restores the calls and functions of the source model after inference of the parts."""
    inferred, nodes = iter(found.graph.node), list[NodeProto]()
    for node in model.graph.node:
        stands_for = [next(inferred) for _ in _written(node, parts, prefix)]
        nodes.append(node if _is_cut(node, parts) else stands_for[0])
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del found.graph.node[:], found.functions[:]
    found.graph.node.extend(copies)
    found.functions.extend(model.functions)
    types = [info for info in found.graph.value_info if not info.name.startswith(prefix)]
    del found.graph.value_info[:]
    found.graph.value_info.extend(types)


def _replace_calls(
    container: GraphProto | FunctionProto,
    parts: Mapping[FunctionId, FunctionInParts],
    prefix: str,
) -> None:
    nodes = [
        made
        for position, node in enumerate(container.node)
        for made in _written(node, parts, f"{prefix}{position}_")
    ]
    if len(nodes) != len(container.node):
        copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del container.node[:]
        container.node.extend(copies)


def _written(
    node: NodeProto, parts: Mapping[FunctionId, FunctionInParts], prefix: str
) -> Iterator[NodeProto]:
    if _is_cut(node, parts):
        yield from parts[call_id(node)].calls(node, prefix)
    else:
        yield node


def _is_cut(node: NodeProto, parts: Mapping[FunctionId, FunctionInParts]) -> bool:
    """Returns whether a node is a call that is replaced by calls of parts."""
    body = parts.get(call_id(node))
    return body is not None and body.fits(node)


def _has_one_writer_each(body: FunctionProto) -> bool:
    """Returns whether each value has only one writer, as in every valid function."""
    written = Counter(name for node in body.node for name in node.output if name)
    written.update(body.input)
    return max(written.values(), default=0) < 2 and len({*body.output}) == len(body.output)


def _parts(body: FunctionProto, prefix: str, graphs: int) -> Iterator[FunctionProto]:
    """Yields the parts of a function, in the order of its nodes."""
    pieces = [*_pieces(body, graphs)]
    constants = {
        name: node for node in body.node if call_id(node) == CONSTANT for name in node.output
    }
    last = {name: len(pieces) for name in body.output}  # the last part that reads a value
    for number, nodes in reversed([*enumerate(pieces)]):
        for name in (name for node in nodes for name in reads(node) if name not in constants):
            last.setdefault(name, number)
    declared = {info.name: info for info in body.value_info}
    handed = {*body.input}
    for number, nodes in enumerate(pieces):
        written = {name for node in nodes for name in node.output}
        read = [*dict.fromkeys(name for node in nodes for name in reads(node))]
        copied = [constants[one] for one in read if one in constants and one not in written]
        part = FunctionProto(
            name=f"{prefix}{number}_{body.name}",
            domain=body.domain,
            overload=body.overload,
            attribute=body.attribute,
            attribute_proto=body.attribute_proto,
            opset_import=body.opset_import,
            node=[*copied, *nodes],
            value_info=[declared[name] for name in sorted(written & declared.keys())],
        )
        ends = [*body.output] if number == len(pieces) - 1 else []
        through = [name for name in ends if name in body.input]
        part.input.extend(dict.fromkeys(
            [*(name for name in read if name in handed and name not in constants), *through]
        ))  # fmt: skip
        needed = [name for name in written if name and last.get(name, 0) > number]
        part.output.extend(dict.fromkeys([*sorted(needed), *through]))
        handed |= {*needed}
        yield part


def _pieces(body: FunctionProto, graphs: int) -> Iterator[list[NodeProto]]:
    """Yields the nodes of a function in lists with a limited number of subgraphs."""
    nodes, weight = list[NodeProto](), 0
    for node in body.node:
        nodes.append(node)
        weight += sum(1 for _ in graphs_of(node))
        if weight >= graphs:
            yield nodes
            nodes, weight = [], 0
    if nodes:
        yield nodes
