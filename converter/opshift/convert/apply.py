"""Putting the answers of a step into the model; every index and fact follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import GraphProto, NodeProto, TensorProto

from opshift.author.facts import Facts
from opshift.author.present_types import types_from
from opshift.author.written import Crossing, Made
from opshift.convert.change import Change, Rewritten, Step
from opshift.model.arrays import Array
from opshift.model.document import Document
from opshift.model.scope import Key, Root, Scope
from opshift.model.settle import Heritage, heritage_of, move_shardings
from opshift.model.walk import captures, graphs_of, may_hold_graphs, reads
from opshift.opsets import schemas


class Applier:
    """Writes the changes of one step, once all of them are known."""

    def __init__(self, document: Document, facts: Facts, crossing: Crossing, step: Step) -> None:
        self.document = document
        self.facts = facts
        self.crossing = crossing
        self.step = step

    def apply(self, changes: list[Change]) -> None:
        leaving: dict[tuple[Root, Key], set[tuple[int, int]]] = {}
        for change in changes:
            scope, position = change.place
            leaving.setdefault((scope.root, change.task.key), set()).add((id(scope), position))
        for (root, key), gone in leaving.items():
            stay = [p for p in root.index[key] if (id(p[0]), p[1]) not in gone]
            if stay:
                root.index[key] = stay
            else:
                del root.index[key]
        for change in changes:
            self._apply_one(change)
        if changes:
            self.document.generation += 1

    def _apply_one(self, change: Change) -> None:
        scope, position = change.place
        made, target = change.made, change.node.proto
        read = {name for node in made.nodes for name in node.input}
        self.document.orphan(scope, [name for name in target.input if name not in read])
        if len(made.nodes) > 1 < len(target.output):
            self._orphan_outputs(scope, target)
        if not made.carried and may_hold_graphs(change.task.key):
            graphs = [graph for _, graph in graphs_of(target)]
            self.document.bury(graphs)
            for graph in graphs:
                self.document.orphan(scope, captures(graph))
        self._log(change)
        self._remember_origin(change)
        used = list(_used_constants(made))
        if used:
            self._bequeath(change, [name for name in target.input if name not in read], used)
        for tensor in used:
            self.document.place_constant(scope.root, tensor)
            self.facts.widen_census([schemas.element_name(tensor.data_type) or ""])
        if len(made.nodes) == 1:
            self._replace(scope, position, target, made.nodes[0], made.carried)
        elif made.nodes:
            self._spread(change)
        else:
            self._remove(scope, position)
        self._remember_types(change)

    def _bequeath(self, change: Change, lost: list[str], used: list[TensorProto]) -> None:
        """Notes which new constant takes the place of which one that the node read before."""
        scope, made, target = change.place[0], change.made, change.node.proto
        gained = {tensor.name for tensor in used} - self.document.heirs.keys()
        left = {name: found for name in lost if (found := self._heritage(scope, name))}
        for node in made.nodes if left else ():
            alike = node.op_type == target.op_type
            for i, name in enumerate(node.input):
                if name not in gained:
                    continue
                at_its_place = target.input[i] if alike and i < len(target.input) else ""
                old = at_its_place if at_its_place in left else self._equal(change, name, left)
                if old:
                    self.document.heirs[name] = left.pop(old)
                    gained.discard(name)

    def _heritage(self, scope: Scope, name: str) -> Heritage | None:
        """What an initializer or a constant leaves to the one that takes its place."""
        owner = scope.owner(name) if name else None
        if owner is None or name in owner.inputs:
            return None
        if (tensor := owner.initializers.get(name)) is not None:
            return heritage_of(owner, tensor, name)
        position = owner.producers.get(name)
        if position is None or owner.node(position).op_type != "Constant":
            return None
        value = next((a.t for a in owner.node(position).attribute if a.HasField("t")), None)
        return heritage_of(owner, value, name) if value is not None else None

    def _equal(self, change: Change, name: str, left: Iterable[str]) -> str:
        """The one of the old constants that has the same elements as a new one."""
        new = change.made.constants[name][1]
        for old in left:
            value = self.facts.constant(change.place[0], old)
            if value is not None and value.shape == new.shape and is_equal(value, new):
                return old
        return ""

    def _orphan_outputs(self, scope: Scope, target: NodeProto) -> None:
        """An output that nobody reads comes for free from one node, but not from a node apart."""
        outputs = [name for name in target.output if name]
        unread = [name for name in outputs if not self.document.names.is_read(scope, name)]
        if 0 < len(unread) < len(outputs):
            self.document.orphan(scope, unread)

    def _spread(self, change: Change) -> None:
        """Several nodes in the place of one: the carrier, or the last of them, is the old node."""
        (scope, position), made, target = change.place, change.made, change.node.proto
        main = next(
            (i for i, node in enumerate(made.nodes) if node is made.carrier), len(made.nodes) - 1
        )
        base = scope.order.get(position) or (position,)
        original = NodeProto(name=target.name)
        if hasattr(target, "device_configurations"):
            original.device_configurations.extend(target.device_configurations)
        beside = []
        for i, node in enumerate(made.nodes):
            if i == main:
                scope.order[position] = (*base, i)
                self._replace(scope, position, target, node, made.carried)
                continue
            self._name(scope, node, original)
            at = len(scope.proto.node)
            scope.proto.node.append(_companion(node, original))
            scope.order[at] = (*base, i)
            self._entered(scope, at, scope.node(at))
            beside.append(scope.node(at))
        move_shardings(self.document, change.place, beside)

    def _replace(
        self,
        scope: Scope,
        position: int,
        target: NodeProto,
        made: NodeProto,
        carried: frozenset[str],
    ) -> None:
        if made.op_type != target.op_type and target.name in scope.repeated_names:
            target.name = self.document.fresh(made.op_type)
        overwrite(target, made, carried)
        self._entered(scope, position, target)
        if getattr(target, "device_configurations", ()):
            self.document.sharded[scope, position] = None

    def _remove(self, scope: Scope, position: int) -> None:
        if scope._producers is not None:
            for name in scope.node(position).output:
                scope._producers.pop(name, None)
        scope.removed.add(position)

    def _name(self, scope: Scope, made: NodeProto, original: NodeProto) -> None:
        """Runtimes want node names to differ within a graph, where there are names."""
        if made.name and made.name not in scope.node_names:
            scope.node_names.add(made.name)
        elif made.name or original.name:
            made.name = self.document.fresh(made.op_type)

    def _entered(self, scope: Scope, position: int, node: NodeProto) -> None:
        if scope._producers is not None:
            for name in node.output:
                if name:
                    scope._producers[name] = position
        key = (schemas.normal(node.domain), node.op_type)
        graphs = []
        if may_hold_graphs(key):
            carried = {id(s.proto) for s in scope.root.scopes}
            graphs = [graph for _, graph in graphs_of(node) if id(graph) not in carried]
        self.document.note(scope, position, key, graphs)
        self.step.touched.append((scope, position))
        if self.facts.counting:
            self._widen_census(scope.root, node, graphs)

    def _widen_census(self, root: Root, node: NodeProto, graphs: Iterable[GraphProto]) -> None:
        """The next step must know of every element type that this one brings in."""
        domain = schemas.normal(node.domain)
        schema = schemas.schema(domain, node.op_type, self.crossing.version(root, domain))
        if schema is not None:
            self.facts.widen_census(types_from(node, schema))
        for graph in graphs:
            for inner in graph.node:
                self._widen_census(root, inner, [found for _, found in graphs_of(inner)])

    def _remember_types(self, change: Change) -> None:
        known = {n: t for n, t in change.builder.env.types.items() if t is not None}
        if not known:
            return
        scope, nodes = change.place[0], change.made.nodes
        written = {o for node in nodes for o in node.output}
        fresh = [name for name in known.keys() & written if self.document.is_fresh(name)]
        read = {name for node in nodes for name in node.input} if fresh else set()
        assumed = any(self.facts.is_assumed(scope, name) for name in read - written)
        for name in fresh:
            self.facts.learn(scope, name, known[name], assumed=assumed)

    def _remember_origin(self, change: Change) -> None:
        """A later refusal names the node of the model, not one that a step wrote for it."""
        proto, origins, prefix = change.node.proto, self.document.origins, self.document.prefix
        written = [o for node in change.made.nodes for o in node.output if o.startswith(prefix)]
        if written:
            first = next((o for o in proto.output if o), "")
            origin = origins.get(first) or f"{proto.op_type} {proto.name or first!r}"
            origins.update(dict.fromkeys(written, origin))

    def _log(self, change: Change) -> None:
        op, made = change.task.key[1], change.made
        gives = tuple([node.op_type for node in made.nodes])
        self.step.rewritten[Rewritten(op, gives, change.task.adapter.source)] += 1
        if made.approximations:
            where = change.node.name or change.node.proto.output[0]
            self.step.approximations += [f"{op} {where!r}: {why}" for why in made.approximations]


def _used_constants(made: Made) -> Iterator[TensorProto]:
    if made.constants:
        read = {name for node in made.nodes for name in reads(node)}
        for name, (tensor, _) in made.constants.items():
            if name in read:
                yield tensor


def overwrite(target: NodeProto, made: NodeProto, carried: frozenset[str]) -> None:
    """Turns a node of the model into another, keeping its name, its notes and carried subgraphs."""
    del target.input[:]
    target.input.extend(made.input)
    del target.output[:]
    target.output.extend(made.output)
    target.op_type = made.op_type
    if schemas.normal(target.domain) != schemas.normal(made.domain):
        target.domain = made.domain
    for i in range(len(target.attribute) - 1, -1, -1):
        if target.attribute[i].name not in carried:
            del target.attribute[i]
    target.attribute.extend(made.attribute)


def is_equal(old: Array, new: Array) -> bool:
    """Whether two arrays of one shape hold the same elements, whatever their types are."""
    if old.dtype.hasobject != new.dtype.hasobject:
        return False
    return bool((old.astype(new.dtype) == new).all())


def _companion(made: NodeProto, original: NodeProto) -> NodeProto:
    """A node written beside the one that keeps the original's notes: it shares its stage."""
    if hasattr(original, "device_configurations"):
        for configuration in original.device_configurations:
            copy = made.device_configurations.add()
            copy.CopyFrom(configuration)
            del copy.sharding_spec[:]
    return made
