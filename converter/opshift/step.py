"""One boundary, the whole model, atomic: either every node has an answer, or nothing changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from onnx import GraphProto, NodeProto, TensorProto

from opshift import guard, order, registry, schemas
from opshift.builder import Builder, Made, rename
from opshift.census import types_from
from opshift.declare import KEEP, Adapter, Array, Keep
from opshift.errors import AdapterBug, InvalidModel, Refusal, RefusedNode, Why
from opshift.facts import Facts
from opshift.guard import Guard
from opshift.node import Env, Node, Value
from opshift.registry import Registry
from opshift.scope import (
    Document,
    FunctionId,
    Key,
    Place,
    Root,
    Scope,
    call_id,
    graphs_of,
    may_hold_graphs,
)

# Types that old operators often lack; where none occurs, what adapters write needs no type check.
COMMON_TYPES = frozenset(
    ["float", "double", "float16", "int64", "int32", "bool", "uint8", "string"]
)


@dataclass(frozen=True, slots=True)
class Task:
    """What the nodes of one operator have in common at one boundary."""

    key: Key
    adapter: Adapter
    schema: schemas.Schema | None  # through which they are read
    derived: Guard | None
    lost: frozenset[str]


@dataclass(slots=True)
class Change:
    """The answer for one node: what stands in its place."""

    place: Place
    task: Task
    made: Made
    node: Node
    builder: Builder


class Rewritten(NamedTuple):
    """A kind of rewriting that a step did, for the report."""

    op: str
    gives: tuple[str, ...]
    adapter: str


@dataclass(slots=True)
class Step:
    """What one step did; `touched` are the nodes to be checked against the version entered."""

    domain: str
    start: int
    to: int
    rewritten: Counter[Rewritten] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    approximations: list[str] = field(default_factory=list)
    touched: list[Place] = field(default_factory=list)


class StepRefused(Exception):  # noqa: N818 - an answer, turned into Refused by the loop
    """Every blocker of one boundary, and the functions in whose bodies some of them lie."""

    def __init__(self, refusals: list[RefusedNode], functions: frozenset[FunctionId]) -> None:
        super().__init__(len(refusals))
        self.refusals = refusals
        self.functions = functions


# What a function's body may lack and its call sites may know.
KNOWN_AT_CALL = frozenset(
    {Why.NEEDS_CONSTANT, Why.NEEDS_TYPE, Why.NEEDS_RANK, Why.NEEDS_SHAPE, Why.NEEDS_STATIC_ATTR}
)


class Stepper:
    """Takes a document over one boundary of one domain."""

    def __init__(
        self,
        document: Document,
        facts: Facts,
        adapters: Registry,
        domain: str,
        start: int,
        to: int,
        allow_approximate: bool,
    ) -> None:
        self.document = document
        self.facts = facts
        self.adapters = adapters
        self.domain = domain
        self.start = start
        self.to = to
        self.goal = to
        self.allow_approximate = allow_approximate
        self.step = Step(domain, start, to)
        self.refusals: list[RefusedNode] = []
        self.functions: set[FunctionId] = set()
        self.movable = True

    # -- what a Builder asks -----------------------------------------------------------------

    def fresh(self, hint: str) -> str:
        return self.document.fresh(hint)

    def version(self, root: Root, domain: str) -> int:
        if domain == self.domain:
            return self.to
        return root.imports.get(domain) or self.document.add_import(root, domain)

    def constant(
        self, root: Root, content: Hashable, tensor: Callable[[], TensorProto]
    ) -> tuple[TensorProto, Array]:
        return self.document.constant(root, content, tensor)

    def cross_inner(self, node: Node, op: Builder) -> tuple[Value, ...]:
        """A node of a function body that an adapter expands crosses like one of the model."""
        domain, name = schemas.normal(node.proto.domain), node.op
        adapter = None
        if domain == self.domain and name in schemas.changed(domain, max(self.start, self.to)):
            adapter = self._verdict(name)
        answer: Value | tuple[Value, ...] | Keep = KEEP
        if adapter is not None:
            answer = self._ask(self._task((domain, name), adapter), node, op)
        if isinstance(answer, Keep):
            op.made.nodes.append(node.proto)
            return tuple(Value(n, op.env) for n in node.proto.output)
        return answer if isinstance(answer, tuple) else (answer,)

    # -- the step ----------------------------------------------------------------------------

    def run(self) -> Step:
        roots = [r for r in self.document.roots if r.imports.get(self.domain) == self.start]
        changes = [c for root in roots for c in self._changes(root)]
        self._keep_what_is_read(changes)
        if self.refusals:
            movable = frozenset(self.functions) if self.movable else frozenset()
            raise StepRefused(self.refusals, movable)
        settled = [c for c in changes if not c.node.graphs_taken]
        self._apply(settled)
        # Adapters that took a subgraph apart must see it as it is now; innermost first.
        for change in sorted(
            (c for c in changes if c.node.graphs_taken), key=lambda c: -c.place[0].depth
        ):
            key, adapter = change.task.key, change.task.adapter
            again = self._change(change.place, self._task(key, adapter))
            if again is None or self.refusals:
                raise AdapterBug(f"{adapter.source} changed its mind about {change.node.op}")
            self._apply([again])
        for root in roots:
            root.imports[self.domain] = self.to
        return self.step

    def _keep_what_is_read(self, changes: list[Change]) -> None:
        """Refuses to dissolve a node that is still read once all nodes have their answers."""
        going = [c for c in changes if c.made.unread is not None]
        if not going or self.refusals:
            return
        reads = {root: Counter(self.facts.uses(root)) for root in self.document.roots}
        for change in changes:
            count = reads[change.place[0].root]
            count.subtract(change.node.proto.input)
            # What a graph that was taken apart reads is counted where it still stands.
            taken = change.node.graphs_taken
            for made in change.made.nodes:
                count.update(made.input if taken else order.reads(made))
        for change in going:
            scope, proto = change.place[0], change.node.proto
            if any(reads[scope.root][name] > 0 for name in proto.output if name):
                refusal = Refusal(Why.NOT_EXPRESSIBLE, change.made.unread or "")
                self._refuse(scope, proto, refusal, known_at_call=True)

    def _changes(self, root: Root) -> Iterator[Change]:
        for key, adapter in self._work(root):
            task = self._task(key, adapter)
            for place in list(root.index[key]):
                change = self._change(place, task)
                if change is not None:
                    yield change
                elif not adapter.run:
                    self.step.touched.append(place)

    def _task(self, key: Key, adapter: Adapter) -> Task:
        schema = schemas.schema(*key, self.start) if key[0] == self.domain else None
        derived = guard.derive(*key, self.start, self.to) if self.start != self.to else None
        if schema is None:  # met before its birth: read as it was born
            schema = next(iter(schemas.history(*key)), None)
        return Task(key, adapter, schema, derived, self._lost(derived))

    def _work(self, root: Root) -> Iterator[tuple[Key, Adapter]]:
        """The operators of this root that have something to do or to prove at this boundary."""
        if self.start == self.to:
            for op in self.adapters.replaced(self.document, self.domain, self.start, self.goal):
                verdict = self.adapters.retired(self.domain, op)
                if verdict is not None and (self.domain, op) in root.index:
                    yield (self.domain, op), verdict
            return
        changed = schemas.changed(self.domain, max(self.start, self.to))
        for key in sorted(key for key in root.index if key[0] == self.domain and key[1] in changed):
            if schemas.schema(*key, self.start) is None:
                continue
            adapter = self._verdict(key[1])
            if adapter is None:
                self._refuse_all(root, key)
            elif self._idle(adapter, key):
                self.step.kept[key[1]] += len(root.index[key])
            else:
                yield key, adapter

    def _verdict(self, op: str) -> Adapter | None:
        found = self.adapters.get(self.domain, op, self.start, self.to)
        return found if found is not None and registry.reviewed(found, op) else None

    def _refuse_all(self, root: Root, key: Key) -> None:
        declared = self.adapters.get(self.domain, key[1], self.start, self.to)
        why = Why.NO_ADAPTER if declared is None else Why.UNREVIEWED
        for scope, position in root.index[key]:
            self._refuse(scope, scope.node(position), Refusal(why, why.value))

    def _idle(self, adapter: Adapter, key: Key) -> bool:
        """Whether the schemas alone prove that no node of this model has work here."""
        derived = guard.derive(*key, self.start, self.to)
        if derived is None:
            return False
        lost = self._lost(derived)
        if adapter.only_narrowed:
            return not lost and not derived.structural
        return adapter.run is None and not lost and not derived.structural

    def _lost(self, derived: Guard | None) -> frozenset[str]:
        """The types that the other version lacks and the model can hold; mostly there are none."""
        return derived.lost_in(self.facts.census) if derived and derived.lost else frozenset()

    def _change(self, place: Place, task: Task) -> Change | None:
        scope, position = place
        proto, adapter = scope.node(position), task.adapter
        node = Node(proto, task.schema, Env(self.facts, scope))
        op = Builder(self, self.facts, scope, subject=proto)
        try:
            answer = self._ask(task, node, op)
            if isinstance(answer, Keep):
                self.step.kept[node.op] += 1
                if adapter.run is not None:
                    self.step.touched.append(place)
                return None
            _settle(node, answer, op, adapter)
            self._check_types(op)
        except Refusal as refusal:
            self._refuse(scope, proto, refusal)
            return None
        _check_emits(node, op.made, adapter)
        return Change(place, task, op.made, node, op)

    def _ask(self, task: Task, node: Node, op: Builder) -> Value | tuple[Value, ...] | Keep:
        adapter, derived, lost = task.adapter, task.derived, task.lost
        if derived and lost and (adapter.only_narrowed or not adapter.handles_types):
            try:
                derived.check_types(node, lost)
            except Refusal as refusal:
                if not adapter.only_narrowed or refusal.why is not Why.TYPE_NOT_AVAILABLE:
                    raise
                return _answer(adapter, node, op)
        if adapter.run is not None and not adapter.only_narrowed:
            return _answer(adapter, node, op)
        if derived and derived.structural:
            derived.check_structure(node)
            if derived.touches(node):
                return op.same(node)
        return KEEP

    def _refuse(
        self, scope: Scope, proto: NodeProto, refusal: Refusal, *, known_at_call: bool = False
    ) -> None:
        root = scope.root
        where = proto.name or next((o for o in proto.output if o), "")
        written_for = self.document.origins.get(next((o for o in proto.output if o), ""))
        if written_for:
            where = f"{where} (written for {written_for})"
        if root.kind != "graph":
            where = f"{where} (in {root.name})"
        if root.function is not None and (known_at_call or refusal.why in KNOWN_AT_CALL):
            self.functions.add(root.function)
        elif refusal.why in KNOWN_AT_CALL and (behind := self._calls_behind(scope, proto)):
            self.functions |= behind
        else:
            self.movable = False
        domain = schemas.normal(proto.domain)
        boundary = (self.start, self.to)
        self.refusals.append(
            RefusedNode(where, proto.op_type, domain, boundary, refusal.why, refusal.detail)
        )

    def _calls_behind(self, scope: Scope, proto: NodeProto) -> set[FunctionId]:
        """The functions that compute what a node reads: written out, they may tell what it is."""
        found = set()
        for name in filter(None, proto.input):
            owner = scope.owner(name)
            position = owner.producers.get(name) if owner else None
            if owner and position is not None and self.document.is_call(owner.node(position)):
                found.add(call_id(owner.node(position)))
        return found

    def _check_types(self, op: Builder) -> None:
        """What an adapter wrote must take the types that meet it."""
        if self.facts.census <= COMMON_TYPES:
            return
        rare = self.facts.census - COMMON_TYPES
        for proto in op.made.nodes:
            domain = schemas.normal(proto.domain)
            version = self.version(op.scope.root, domain)
            schema = schemas.schema(domain, proto.op_type, version)
            for i, name in enumerate(proto.input if schema else ()):
                param = schema.input_at(i) if schema else None
                if not name or param is None or _takes_all(param.types, rare):
                    continue
                found = op.env.type(name)
                text = schemas.type_name(found) if found is not None else None
                if text is not None and text not in param.types:
                    raise Refusal(
                        Why.TYPE_NOT_AVAILABLE,
                        f"{proto.op_type} takes no {text} at {domain or 'ai.onnx'} {version};"
                        f" value {name!r}",
                    )

    # -- applying ----------------------------------------------------------------------------

    def _apply(self, changes: list[Change]) -> None:
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
            self.facts.changed()

    def _apply_one(self, change: Change) -> None:
        scope, position = change.place
        made, target = change.made, change.node.proto
        read = {name for node in made.nodes for name in node.input}
        self.document.orphan(scope, [name for name in target.input if name not in read])
        if not made.carried and may_hold_graphs(change.task.key):
            self.document.bury([graph for _, graph in graphs_of(target)])
        self._log(change)
        self._remember_origin(change)
        for tensor in _used_constants(made):
            self.document.place_constant(scope.root, tensor)
            self.facts.widen_census([schemas.element_name(tensor.data_type) or ""])
        if len(made.nodes) == 1:
            self._replace(scope, position, target, made.nodes[0], made.carried)
        elif made.nodes:
            self._spread(change)
        else:
            self._remove(scope, position)
        self._remember_types(change)

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

    def _replace(
        self,
        scope: Scope,
        position: int,
        target: NodeProto,
        made: NodeProto,
        carried: frozenset[str],
    ) -> None:
        if made.op_type != target.op_type and target.name in scope.repeated_names:
            target.name = self.fresh(made.op_type)
        overwrite(target, made, carried)
        self._entered(scope, position, target)

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
            made.name = self.fresh(made.op_type)

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
        schema = schemas.schema(domain, node.op_type, self.version(root, domain))
        if schema is not None:
            self.facts.widen_census(types_from(node, schema))
        for graph in graphs:
            for inner in graph.node:
                self._widen_census(root, inner, [found for _, found in graphs_of(inner)])

    def _remember_types(self, change: Change) -> None:
        known = {n: t for n, t in change.builder.env.types.items() if t is not None}
        if not known:
            return
        written = {o for node in change.made.nodes for o in node.output}
        for name in known.keys() & written:
            if self.document.is_fresh(name):
                change.place[0].declared[name] = known[name]

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


def _answer(adapter: Adapter, node: Node, op: Builder) -> Value | tuple[Value, ...] | Keep:
    try:
        answer = adapter(node, op)
    except AdapterBug as bug:
        raise AdapterBug(f"{adapter.source} on {node.op} {node.name!r}: {bug}") from bug
    except (Refusal, InvalidModel, UnicodeDecodeError):  # text that is none is the model's fault
        raise
    except Exception as error:  # whatever an adapter trips over is its bug, not the caller's
        raise AdapterBug(f"{adapter.source} on {node.op} {node.name!r} raised {error!r}") from error
    values = answer if isinstance(answer, tuple) else (answer,)
    if not isinstance(answer, Keep) and not all(isinstance(v, Value) for v in values):
        raise AdapterBug(
            f"{adapter.source} returned {answer!r}: an adapter returns KEEP, a value or values"
        )
    return answer


def _settle(node: Node, answer: Value | tuple[Value, ...], op: Builder, adapter: Adapter) -> None:
    """Gives the values that replace the node's outputs the names those outputs have."""
    if op.made.unread is not None:
        if answer != () or op.made.nodes:
            raise AdapterBug(f"{adapter.source} writes beside {node.op}, which it dissolves")
        return
    values = answer if isinstance(answer, tuple) else (answer,)
    outputs = node.proto.output
    if len(outputs) > len(values) and any(o and o.used for o in node.outputs[len(values) :]):
        raise AdapterBug(
            f"{adapter.source} returned {len(values)} values for the {node.n_outputs} outputs"
            f" of {node.op} {node.name!r}"
        )
    own = {name for made in op.made.nodes for name in made.output}
    names: dict[str, str] = {}
    spare: set[str] = set()
    for output, value in zip(outputs, values, strict=False):
        if not output:
            spare.add(value.name)
            continue
        if value.name not in own or value.name in names:
            value = op.Identity(value)
            op.made.ops.discard("Identity")
        names[value.name] = output
    if spare:
        _leave_out(op.made, spare - names.keys())
    for made in op.made.nodes:
        rename(made, names)
    if not op.made.nodes:
        raise AdapterBug(f"{adapter.source} answered {node.op} without writing a node")


def _leave_out(made: Made, spare: set[str]) -> None:
    """The same node leaves out the outputs that the node left out."""
    if made.carrier is None or any(True for node in made.nodes for _ in graphs_of(node)):
        return
    spare -= {name for node in made.nodes for name in node.input}
    for i, name in enumerate(made.carrier.output):
        if name in spare:
            made.carrier.output[i] = ""


def _check_emits(node: Node, made: Made, adapter: Adapter) -> None:
    undeclared = made.ops - adapter.emits - {node.op, "Identity"}  # the engine writes that itself
    if undeclared:
        raise AdapterBug(
            f"{adapter.source} writes {', '.join(sorted(undeclared))} without saying so in emits="
        )
    if made.approximations and not adapter.approximate:
        raise AdapterBug(f"{adapter.source} approximates without saying so in approximate=")


def _takes_all(types: frozenset[str], rare: frozenset[str]) -> bool:
    return all(f"tensor({name})" in types for name in rare)


def _used_constants(made: Made) -> Iterator[TensorProto]:
    if made.constants:
        read = {name for node in made.nodes for name in order.reads(node)}
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


def _companion(made: NodeProto, original: NodeProto) -> NodeProto:
    """A node written beside the one that keeps the original's notes: it shares its stage."""
    if hasattr(original, "device_configurations"):
        for configuration in original.device_configurations:
            copy = made.device_configurations.add()
            copy.CopyFrom(configuration)
            del copy.sharding_spec[:]
    return made
