# SPDX-License-Identifier: Apache-2.0
"""The rules on the nodes that an adapter wrote, before these nodes enter the model.

To save time, only names that the replaced node did not read are looked up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from opshift.author.builder import Builder
from opshift.author.facts import Facts, ScopeEnv
from opshift.author.fit import unfit, unfit_types
from opshift.author.inference import infer_node, objection
from opshift.author.node import Node
from opshift.author.verdicts import Adapter
from opshift.model.scope import Place, Scope
from opshift.model.walk import graphs_of, holds_graphs, named, reads
from opshift.opsets import schemas
from opshift.opsets.types import alike, dims_of, rank_of, shown_type
from opshift.protos import NodeProto, TypeProto
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class WrittenNodes:
    """The nodes that an adapter wrote in place of one node.

    `given` has the new names that opshift created for these nodes. `typed` has the kinds of
    rewrites whose types this step has already checked. With `traced`, the types of all new nodes
    are inferred, even if they are declared.
    """

    place: Place
    facts: Facts
    node: Node
    op: Builder
    adapter: Adapter
    domain: str
    to: int
    given: Collection[str]
    typed: set[tuple[object, ...]]
    traced: bool = False


# -- values --------------------------------------------------------------------------------------


def values(change: WrittenNodes) -> Iterator[str]:
    """Checks that names are visible, defined before their use, and defined once."""
    place, old, replacement = change.place, change.node.proto, change.op.made
    if not replacement.nodes:
        return
    scope, _ = place
    readable = {*reads(old), *replacement.constants, ""}
    inside = {name for _, graph in graphs_of(old) for n in graph.node for name in n.output}
    written: set[str] = set()
    outputs = {name for node in replacement.nodes for name in node.output}
    replaced = {*old.output}
    for new in replacement.nodes:
        for name in reads(new):
            if name in readable or name in written:
                continue
            if name in outputs:
                yield f"{new.op_type} reads {name!r} before it is written"
            elif (problem := _unreachable(place, name)) is not None:
                yield f"{new.op_type} reads {name!r}, which {problem}"
            readable.add(name)
        for name in filter(None, new.output):
            if name in written:
                yield f"{new.op_type} writes {name!r}, which was written before"
            elif name not in replaced and name not in change.given and name not in inside:
                yield f"{new.op_type} writes {name!r}, which is neither an output nor a new name"
            written.add(name)
    unwritten = replaced - written - {""}
    if unwritten and scope.root.top is scope:
        for name in sorted(unwritten & scope.outputs):
            yield f"no new node writes the output {name!r}"


def _unreachable(place: Place, name: str) -> str | None:
    """Returns why a value cannot be read at a place, or None."""
    scope, position = place
    owner = scope.owner(name)
    if owner is None:
        return "is not defined"
    if name not in owner.producers:
        return None
    written = owner.producers[name]
    while scope is not owner:
        if scope is scope.root.top:
            return None  # a training algorithm runs after the main graph
        position, scope = holder(scope)
    if written == position:
        return "the replaced node wrote" if owner is place[0] else "the outer node writes"
    keys = [owner.order.get(at) or (at,) for at in (written, position)]
    return None if keys[0] < keys[1] else "is written later"


def holder(scope: Scope) -> tuple[int, Scope]:
    """Returns the position of the node with this subgraph, and the outer graph."""
    around = scope.parent
    assert around is not None
    for position, node in enumerate(around.proto.node):
        graphs = () if position in around.removed else graphs_of(node)
        if any(graph is scope.proto for _, graph in graphs):
            return position, around
    raise AssertionError(f"no node has the subgraph {scope.proto.name!r}")


# -- schemas -------------------------------------------------------------------------------------


def written_schemas(change: WrittenNodes) -> Iterator[str]:
    """Checks imports, attribute references, and the schema of each node after the step."""
    root, replacement = change.place[0].root, change.op.made
    referred = {attribute.ref_attr_name for attribute in change.node.proto.attribute}
    for node in replacement.nodes:
        for attribute in node.attribute:
            if attribute.ref_attr_name and attribute.ref_attr_name not in referred:
                yield (
                    f"{node.op_type} refers to the function attribute {attribute.ref_attr_name!r},"
                    " but the replaced node does not"
                )
        domain = schemas.normal(node.domain)
        version = change.to if domain == change.domain else root.imports.get(domain)
        if version is None:
            yield f"{node.op_type} is of domain {domain!r}, which {root.name} does not import"
        elif (schema := schemas.schema(domain, node.op_type, version)) is not None:
            yield from unfit(node, schema, version, elsewhere=replacement.carried)
        elif domain in schemas.known_domains():
            yield f"{node.op_type} does not exist at {domain or 'ai.onnx'} {version}"


# -- types ---------------------------------------------------------------------------------------


def types(written: WrittenNodes) -> Iterator[str]:
    """Checks the element types of the outputs of replaced nodes; equal changes only once."""
    if written.traced:
        yield from _inferred_types(written)
        return
    yield from _refused_constants(written)
    # onnx's inference tolerates an unknown rank in a subgraph
    if written.place[0].parent is not None:
        yield from _changed_outputs(written)
        return
    scope, op = written.place[0], written.op
    for name in filter(None, written.node.proto.output):
        declared = scope.declared.get(name)
        before = schemas.type_name(declared)
        ops = tuple([node.op_type for node in op.made.nodes])
        kind = (written.adapter.source, ops, before)
        if (
            before is None
            or kind in written.typed
            or not any(name in node.output for node in op.made.nodes)
        ):
            continue
        written.typed.add(kind)
        after = schemas.type_name(op.env.type(name))
        if after not in (None, before) and schemas.type_name(_before(written).get(name)) == before:
            yield f"the type of {name!r} changes from {before} to {after}"


def _inferred_types(written: WrittenNodes) -> Iterator[str]:
    """Checks the input types of each node, and that outputs keep their types and ranks.

    Lengths are not compared, because onnx's inference computes some of them wrongly.
    """
    for node in written.op.made.nodes:
        yield from _unfit_types(node, written)
    yield from _objections(written)
    yield from _changed_outputs(written)


def _refused_constants(written: WrittenNodes) -> Iterator[str]:
    """Yields the errors of inference on nodes without inputs."""
    for node in written.op.made.nodes:
        if not node.input and (error := _rejected(node, written)) is not None:
            yield error


def _rejected(node: NodeProto, written: WrittenNodes, *, lengths: bool = True) -> str | None:
    """Returns the error of inference on a new node; None for a node that takes over graphs."""
    replacement = written.op.made
    if node is replacement.carrier and replacement.carried:  # it has its graphs only after the step
        return None
    error = objection(node, written.op.env, _entered(node, written), lengths=lengths)
    return f"inference rejects {named(node)}: {error}" if error is not None else None


def _objections(written: WrittenNodes) -> Iterator[str]:
    """Yields the errors of inference on nodes, unless an error depends on lengths."""
    if _is_sound(written):
        for node in written.op.made.nodes:
            if (error := _rejected(node, written, lengths=False)) is not None:
                yield error


def _is_sound(written: WrittenNodes) -> bool:
    """Returns whether inference accepts the replaced node before and after the step.

    The result is also false if a node reads a value whose declared type inference does not confirm,
    because then the model may be at fault.
    """
    old, scope = written.node.proto, written.place[0]
    env = ScopeEnv(written.facts, scope)
    if objection(old, env, None) or objection(old, env, _entered(old, written)):
        return False
    read = {name for node in (old, *written.op.made.nodes) for name in node.input if name}
    return not any(written.facts.is_unconfirmed(scope, name) for name in read)


def suspect_lengths(written: WrittenNodes) -> Iterator[str]:
    """Yields lengths that inference rejects, or that differ from the lengths before the step.

    The cause may also be a faulty model, or onnx's inference, which computes some lengths wrongly.
    """
    if not _is_sound(written):
        return
    env = written.op.env
    for node in written.op.made.nodes:
        if (error := _rejected(node, written)) is not None:
            yield error
    if holds_graphs(written.node.proto):  # the subgraphs may be converted already
        return
    before = _before(written)
    for name in filter(env.is_read, written.node.proto.output):
        was, now = before.get(name), env.type(name)
        if was is not None and now is not None and not _fit(was, now):
            yield f"the type of {name!r} changes from {shown_type(was)} to {shown_type(now)}"


def is_inferred(written: WrittenNodes) -> bool:
    """Returns whether onnx has inference for the replaced node, before or after the step."""
    node, root = written.node.proto, written.place[0].root
    schemas_of_node = (root.schema_of(node, version) for version in (None, _entered(node, written)))
    return any(
        schemas.raw(schema.domain, schema.name, schema.since).has_type_and_shape_inference_function
        for schema in schemas_of_node
        if schema is not None
    )


def _fit(was: TypeProto, now: TypeProto) -> bool:
    """Returns whether the known lengths of two tensors are equal."""
    if rank_of(was) is None or rank_of(now) is None:
        return True
    pairs = zip(dims_of(was), dims_of(now), strict=False)
    return not any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


def _entered(node: NodeProto, written: WrittenNodes) -> int:
    """Returns the version of a node's domain after the step."""
    domain = schemas.normal(node.domain)
    if domain == written.domain:
        return written.to
    return written.op.crossing.version(written.place[0].root, domain)


def _changed_outputs(written: WrittenNodes) -> Iterator[str]:
    """Yields outputs that are read and whose inferred type or rank changed.

    Nodes with subgraphs are skipped, because their subgraphs may already be converted although the
    imports are not.
    """
    op, new_nodes = written.op, written.op.made.nodes
    if holds_graphs(written.node.proto):
        return
    before = _before(written)
    for name in filter(op.env.is_read, written.node.proto.output):
        was, now = before.get(name), op.env.type(name)
        if was is None or now is None or not any(name in node.output for node in new_nodes):
            continue
        if not alike(was, now):
            yield f"the type of {name!r} changes from {shown_type(was)} to {shown_type(now)}"


def _unfit_types(node: NodeProto, written: WrittenNodes) -> Iterator[str]:
    """Yields inputs whose types the operator does not accept, alone or in combination."""
    schema = schemas.schema(schemas.normal(node.domain), node.op_type, _entered(node, written))
    env = written.op.env
    if schema is not None:
        for misfit in unfit_types(node, schema, lambda name: schemas.type_name(env.type(name))):
            yield f"{node.op_type} {misfit}"


def _before(written: WrittenNodes) -> dict[str, TypeProto]:
    """Returns the inferred output types of the replaced node; its declared types may be wrong."""
    return infer_node(written.node.proto, ScopeEnv(written.facts, written.place[0]), None)
