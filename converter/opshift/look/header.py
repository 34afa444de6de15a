# SPDX-License-Identifier: Apache-2.0
"""Reads the imports and operators of a model from its outline, without loading onnx."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from opshift.errors import InvalidModel
from opshift.model.bytes import foreign
from opshift.model.bytes import outline_pb2 as outline
from opshift.opsets.identity import normal, require_one_version
from opshift.records import dataclass

Key = tuple[str, str]  # (domain, op_type)


@dataclass(frozen=True, slots=True)
class _Root:
    """The contents of the model or of a function, with those of its subgraphs."""

    imports: dict[str, int]
    operators: Counter[Key]  # the number of nodes of each operator
    sparse: bool  # whether a graph has a sparse initializer


def roots_of(listing: outline.Listing) -> Iterator[_Root]:
    """Yields the contents of the model, then of each function."""
    if not listing.HasField("graph"):
        raise InvalidModel(foreign.NO_GRAPH)
    functions = {
        (normal(function.domain.decode()), function.name.decode(), function.overload.decode())
        for function in listing.functions
    }
    graphs = [listing.graph]
    for training in listing.training_info:
        graphs += [training.initialization, training.algorithm]
    yield _root("the model", listing.opset_import, graphs, functions)
    for function in listing.functions:
        where = f"function {function.name.decode()!r}"
        yield _root(where, function.opset_import, [function], functions)


def _root(
    where: str,
    imports: Sequence[outline.Import],
    tops: Iterable[outline.ListedGraph | outline.ListedFunction],
    functions: set[tuple[str, str, str]],
) -> _Root:
    imports_by_domain = {normal(opset.domain.decode()): opset.version for opset in imports}
    if len(imports_by_domain) != len(imports):
        for name in imports_by_domain:
            same = (entry.version for entry in imports if normal(entry.domain.decode()) == name)
            require_one_version(name, same, where)
    nodes: Counter[tuple[bytes, bytes, bytes]] = Counter()
    waiting, sparse = list(tops), False
    while waiting:
        container = waiting.pop()
        if isinstance(container, outline.ListedGraph):
            sparse = sparse or len(container.sparse_initializer) > 0
        else:  # the default attributes of a function may hold graphs
            waiting += [*container.attribute_proto.g, *container.attribute_proto.graphs]
        for node in container.node:
            nodes[node.domain, node.op_type, node.overload] += 1
            if node.HasField("attribute"):
                waiting += [*node.attribute.g, *node.attribute.graphs]
    operators: Counter[Key] = Counter()
    for (domain, op, overload), count in nodes.items():
        which = normal(domain.decode()), op.decode(), overload.decode()
        if which not in functions:
            operators[which[:2]] += count
    return _Root(imports_by_domain, operators, sparse)
