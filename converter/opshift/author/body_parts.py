# SPDX-License-Identifier: Apache-2.0
"""Splits a long function into functions of a few nodes, to make its inference faster.

A call of the function becomes one call for each part; each call passes on the values that later
parts read. A part that reads a Constant has a copy of the Constant, because onnx does not know the
constants among the inputs of a call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from opshift.model.functions import functions_of
from opshift.model.scope import call_id
from opshift.model.walk import Container, graphs_of, reads
from opshift.protos import FunctionProto, ModelProto, NodeProto
from opshift.protos.copies import copied, copy_of, replace_all

CONSTANT = "", "Constant", ""


class LongFunctions:
    """The long functions of a model, each split into a chain of shorter functions (parts)."""

    def __init__(
        self,
        model: ModelProto,
        is_long: Callable[[FunctionProto], bool],
        prefix: str,
        graphs: int,
    ) -> None:
        """Splits each long function into parts with at most `graphs` subgraphs, as far as possible.

        The names of new functions and values begin with `prefix`.
        """
        self.model, self.prefix = model, prefix
        self.bodies = {
            which: body
            for which, body in functions_of(model).items()
            if is_long(body) and _has_one_writer_each(body)
        }
        self.parts = {
            which: [*_parts(body, f"{prefix}{number}_", graphs)]
            for number, (which, body) in enumerate(self.bodies.items())
        }

    def cut(self) -> ModelProto:
        """Copies the model, and calls parts in place of long functions, except in subgraphs."""
        short = copied(self.model)
        for parts in self.parts.values():
            short.functions.extend(parts)
        containers: list[Container] = [short.graph, *short.functions]
        for container in containers:
            nodes = [
                written
                for position, node in enumerate(container.node)
                for written in self._written(node, f"{self.prefix}{position}_")
            ]
            if len(nodes) != len(container.node):
                replace_all(container.node, nodes)
        return short

    def join(self, inferred: ModelProto) -> None:
        """Restores the calls and functions of the model after inference of the parts."""
        results, nodes = iter(inferred.graph.node), list[NodeProto]()
        for node in self.model.graph.node:
            first, *_ = [next(results) for _ in self._written(node, self.prefix)]
            nodes.append(node if self._is_cut(node) else first)
        replace_all(inferred.graph.node, nodes)
        del inferred.functions[:]
        inferred.functions.extend(self.model.functions)
        infos = inferred.graph.value_info
        own_infos = [info for info in infos if not info.name.startswith(self.prefix)]
        del infos[:]
        infos.extend(own_infos)

    def _written(self, node: NodeProto, prefix: str) -> Iterator[NodeProto]:
        """Yields the calls of the parts that replace a call of a long function, or the node."""
        if not self._is_cut(node):
            yield node
            return
        body = self.bodies[call_id(node)]
        names = dict(zip(body.input, node.input, strict=False))
        outputs = dict(zip(body.output, node.output, strict=False))
        for part in self.parts[call_id(node)]:
            call = copy_of(node)
            call.op_type = part.name
            call.input[:] = [names.get(name, "") for name in part.input]
            call.output[:] = [outputs.get(name) or prefix + name for name in part.output]
            names.update(zip(part.output, call.output, strict=True))
            yield call

    def _is_cut(self, node: NodeProto) -> bool:
        """Returns whether a node is a call that is replaced by calls of parts."""
        body = self.bodies.get(call_id(node))
        return (
            body is not None
            and len(node.input) <= len(body.input)
            and len(node.output) == len(body.output)
        )


def _has_one_writer_each(body: FunctionProto) -> bool:
    """Returns whether each value has only one writer, as in every valid function."""
    written = Counter(name for node in body.node for name in node.output if name)
    written.update(body.input)
    return max(written.values(), default=0) < 2 and len({*body.output}) == len(body.output)


def _parts(body: FunctionProto, prefix: str, graphs: int) -> Iterator[FunctionProto]:
    """Yields the parts of a function, in the order of its nodes."""
    pieces = [[body.node[i] for i in piece] for piece in split(body.node, graph_count, graphs)]
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
        copied = [
            constants[read_name]
            for read_name in read
            if read_name in constants and read_name not in written
        ]
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


def graph_count(node: NodeProto) -> int:
    """Returns the number of subgraphs of a node."""
    return sum(1 for _ in graphs_of(node))


def split(
    nodes: Sequence[NodeProto], weight: Callable[[NodeProto], int], limit: int
) -> Iterator[range]:
    """Yields the positions of the nodes of each piece, which ends when its weight is the limit."""
    start, total = 0, 0
    for position, node in enumerate(nodes):
        total += weight(node)
        if total >= limit:
            yield range(start, position + 1)
            start, total = position + 1, 0
    if start < len(nodes):
        yield range(start, len(nodes))
