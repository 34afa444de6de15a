# SPDX-License-Identifier: Apache-2.0
"""The answers for the known classes, from one set of imports to one version."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from opshift.author.verdicts import FORM
from opshift.convert import planner
from opshift.convert.blockers import StepRefused
from opshift.convert.classes.facets import MOST_TYPES, Facet
from opshift.convert.classes.memo import Memo
from opshift.convert.classes.nested import holds_graphs, rename
from opshift.convert.classes.node_class import NodeClass
from opshift.convert.classes.rows import names_of
from opshift.convert.ir import needs
from opshift.convert.ir.features import BARE
from opshift.convert.ir.lift import lift
from opshift.convert.legal import checker
from opshift.convert.quotient import Key, broken_rules, idle
from opshift.convert.quotient.class_journal import ClassJournal, input_name, output_name
from opshift.convert.quotient.compile import Compilation, content_of
from opshift.convert.quotient.goal import ClassGoal
from opshift.convert.quotient.idle import Idle
from opshift.convert.quotient.later_types import LaterTypes
from opshift.convert.quotient.template import Answer, Beyond, Reader
from opshift.errors import OpshiftError, Refused
from opshift.model import weights
from opshift.model.bytes.outline import Content
from opshift.model.document import Document
from opshift.model.walk import nodes_inside
from opshift.opsets import schemas
from opshift.opsets.types import rank_of
from opshift.protos import GraphProto, ModelProto, NodeProto, TypeProto

if TYPE_CHECKING:
    from opshift.convert.quotient.class_refusal import ClassRefusal, Unclear

NAMED = "k%d"
REFUSED = "refused"
NOBODY = "opshift.quotient"  # the domain of what gives and takes values without a known shape


class ClassPlan:
    """What becomes of each class on the way to a version of the default domain.

    A text in place of an answer is why the class alone does not tell: its model goes node by node.
    """

    def __init__(self, known: Memo, start: int, goal: ClassGoal) -> None:
        self.start = start
        self.to = goal.to
        self.request = goal.request
        self.imports = known.imports
        self.adapters = known.adapters
        self.ir_version = known.ir_version
        self.facets: list[Facet] = known.facets
        self.operations = known.operations
        self.tokens = known.tokens
        self.generation = known.classes
        self.touched: dict[int, bool] = {}  # by signature
        self.idle: dict[int, Idle | None] = {}  # by signature
        self._idle_operators: dict[tuple[str, str], Idle | None] = {}
        self.answers: dict[Key, Answer | str] = {}
        self.refusals: dict[Hashable, ClassRefusal | Unclear] = {}  # by the classes of a model
        self.blocked: set[frozenset[Key]] = set()  # what was asked for models that are refused
        self.fit: set[Key] = set()  # those that the runtime of the goal certainly runs
        self.brought: list[frozenset[str]] = []  # the element types that steps bring in
        self.later_types = LaterTypes(self)
        # The engine may write these, so a plan must lead there even if no node changes.
        self.crosses = {op: self._crosses(op) for op in planner.ENGINE_WRITES}

    def touches(self, signature: int) -> bool:
        """Whether a step may look at the nodes of a signature."""
        if signature not in self.touched:
            node = self.operations[signature].proto
            nodes = (node, *nodes_inside(node))
            self.touched[signature] = any(map(self._touches, nodes))
        return self.touched[signature]

    def _touches(self, node: NodeProto) -> bool:
        key = (schemas.normal(node.domain), node.op_type)
        if key[0] == "":
            if key[1] not in self.crosses:
                self.crosses[key[1]] = self._crosses(key[1])
            if self.crosses[key[1]]:
                return True
        return self.adapters.get(*key, *FORM) is not None or self.adapters.retired(*key) is not None

    def _crosses(self, op: str) -> bool:
        """Whether the plan leads an operator over a boundary."""
        way = planner.own_way(self.adapters, "", op, self.start, self.to)
        return next(way, None) is not None

    def learn(self, keys: Iterable[Key], ir_version: int) -> None:
        """Finds the answers for classes: converts one node of each, all in one model.

        Of those that the schemas alone prove to stay, onnx looks at the nodes as they are at the
        goal. Where a conversion does not answer all, each node with graphs is converted alone: what
        is said of its inside spoils no other answer.
        """
        self.answers.update(self._idle(keys, ir_version))
        asked = [key for key in keys if key not in self.answers]
        if not asked:
            return
        self._learn(asked, ir_version)
        if all(isinstance(self.answers.get(key), Answer) for key in asked):
            return
        plain = [
            key for key in asked if not holds_graphs(self.operations[key[0].signature].signature)
        ]
        if len(plain) < len(asked) > 1:
            alone = [[key] for key in asked if key not in plain]
            for group in filter(None, [plain, *alone]):
                self._learn(group, ir_version)

    def _idle(self, keys: Iterable[Key], ir_version: int) -> Mapping[Key, Answer]:
        """The answers for classes that the schemas alone prove to stay."""
        found = {}
        for key in keys if self.ir_version >= BARE.ir else ():
            signature = key[0].signature
            if signature not in self.idle:
                self.idle[signature] = self._find_idle(signature, ir_version)
            known = self.idle[signature]
            if known is not None and known.covers(functools.partial(self.types, key[0])):
                found[key] = known.answer
        return found if found and Quotient(self, list(found)).stands(ir_version) else {}

    def _find_idle(self, signature: int, ir_version: int) -> Idle | None:
        operation, known = self.operations[signature], self._idle_operators
        if operation.key not in known:
            known[operation.key] = idle.find(self.adapters, operation.key, self.start, self.to)
        return known[operation.key] if idle.fits(operation, ir_version) else None

    def types(self, one: NodeClass) -> list[frozenset[str]]:
        """The types of what a class reads and writes."""
        operation = self.operations[one.signature]
        outputs = names_of(operation.signature[2], "o")
        named = zip((*operation.inputs, *outputs), (*one.inputs, *one.outputs), strict=True)
        return [self.tokens(number) for name, number in named if name]

    def _learn(self, asked: list[Key], ir_version: int) -> None:
        quotient = Quotient(self, asked)
        try:
            found = quotient.convert()
        except _Refused as refused:
            if not refused.numbers and len(asked) > 1:
                middle = len(asked) // 2
                self._learn(asked[:middle], ir_version)
                self._learn(asked[middle:], ir_version)
                return
            for number in refused.numbers or range(len(asked)):
                self.answers[asked[number]] = REFUSED
            return
        self.brought.append(frozenset(quotient.journal.brought))  # before the answers are known
        if found.ir_version != ir_version or quotient.notes:
            self.answers.update(dict.fromkeys(asked, "a note, or another IR version"))
            return
        self.answers.update(zip(asked, quotient.answers(found), strict=True))


@functools.lru_cache(maxsize=MOST_TYPES)
def _is_declarable(kind: bytes | None) -> bool:
    """Whether an input or output of a model may have a type."""
    if kind is None:
        return False
    found = TypeProto.FromString(kind)
    return rank_of(found) is not None or not found.HasField("tensor_type")


def _inner_name(number: int, first: tuple[int, ...], name: str) -> str:
    """The name in the quotient of what a graph inside of a node reads."""
    if first and name[0] == "i":
        return input_name(number, first[int(name[1:])])
    return f"k{number}{name}"


class _Refused(Exception):  # noqa: N818 - an answer, not an error
    """Raised if the engine refuses some classes; without numbers, it is unknown which."""

    def __init__(self, numbers: set[int]) -> None:
        super().__init__(numbers)
        self.numbers = numbers


class Quotient:
    """A model with one node of each class, all its values typed."""

    def __init__(self, plan: ClassPlan, keys: Sequence[Key]) -> None:
        self.plan = plan
        self.keys = keys
        self.notes: tuple[str, ...] = ()
        self.nodes: list[NodeProto] = []
        self.known: list[dict[str, Facet]] = []  # of each class, by name
        self.model = ModelProto(ir_version=plan.ir_version)
        for domain, version in plan.imports:
            self.model.opset_import.add(domain=domain, version=version)
        self.model.opset_import.add(domain=NOBODY, version=1)
        self.sources: list[NodeProto] = []
        self.sinks: list[NodeProto] = []
        graph = self.model.graph
        graph.name = "quotient"
        for number, key in enumerate(keys):
            self._add(graph, number, *key)
        graph.node.extend([*self.sources, *self.nodes, *self.sinks])
        self.journal = ClassJournal(self.known)

    def _add(
        self,
        graph: GraphProto,
        number: int,
        one: NodeClass,
        mask: int,
        named: bool,
        first: tuple[int, ...],
    ) -> None:
        plan = self.plan
        operation = plan.operations[one.signature]
        node, known = NodeProto(), dict[str, Facet]()
        node.CopyFrom(operation.proto)
        node.name = NAMED % number if named else ""
        node.doc_string = NAMED % number
        for i, name in enumerate(operation.inputs):
            given = input_name(number, first[i] if first else i) if name else ""
            if i < len(node.input):
                node.input[i] = given
            if name and given not in known:
                known[given] = plan.facets[one.inputs[i]]
                self._give(graph, given, known[given])
        rename(node, f"k{number}{{}}".format, functools.partial(_inner_name, number, first))
        self.known.append(known)
        for i, name in enumerate(names_of(operation.signature[2], "o")):
            node.output[i] = output_name(number, i) if name else ""
            facet = plan.facets[one.outputs[i]]
            if name and not mask >> i & 1:
                self._take(node.output[i], facet.kind)
            if name:
                known[node.output[i]] = facet
        self.nodes.append(node)

    def _give(self, graph: GraphProto, name: str, facet: Facet) -> None:
        value, kind = facet.constant(self.plan.ir_version), facet.ranked
        if value is not None:
            tensor = graph.initializer.add()
            tensor.ParseFromString(value)
            tensor.name = name
            if self.plan.ir_version < 4:  # where each initializer is an input
                graph.input.add(name=name).type.ParseFromString(kind or b"")
        elif _is_declarable(kind):
            graph.input.add(name=name).type.ParseFromString(kind or b"")
        else:
            self.sources.append(NodeProto(op_type="Any", domain=NOBODY, output=[name]))
            self._declare(graph, name, kind)

    def _take(self, name: str, kind: bytes | None) -> None:
        graph = self.model.graph
        if _is_declarable(kind):
            graph.output.add(name=name).type.ParseFromString(kind or b"")
        else:
            self.sinks.append(NodeProto(op_type="Any", domain=NOBODY, input=[name]))
            self._declare(graph, name, kind)

    def _declare(self, graph: GraphProto, name: str, kind: bytes | None) -> None:
        if kind is not None:
            graph.value_info.add(name=name).type.ParseFromString(kind)

    def convert(self) -> ModelProto:
        """The converted quotient."""
        model = ModelProto()
        model.CopyFrom(self.model)
        work = Compilation(model, self.plan.request, self.plan, self.journal)
        try:
            told = work.run().notes
        except (StepRefused, Refused) as refused:
            raise _Refused(_numbers(one.node for one in refused.refusals)) from None
        except (OpshiftError, MemoryError):  # node by node, the model is looked at for the cause
            raise _Refused(set()) from None
        self.prefix = work.document.prefix
        self._require_types(model)
        before = ModelProto()
        before.CopyFrom(self.model)
        content = needs.of_content(Content(model.SerializeToString()), (), bare=True)
        above = (one for one in content if one.ir > model.ir_version)
        # The whole model tells of its own inputs, and of what is skipped in it.
        own = {*lift(before, model.ir_version), *needs.skipped(above, model.ir_version)}
        own.update(broken_rules.harmless(work.broken) or ())
        self.notes = tuple(one for one in told if one not in own)
        return model

    def stands(self, ir_version: int) -> bool:
        """Whether onnx has nothing against the nodes as they are at the goal."""
        model = ModelProto()
        model.CopyFrom(self.model)
        model.ir_version = ir_version
        for imported in model.opset_import:
            if imported.domain == "":
                imported.version = self.plan.to
        adapters = self.plan.adapters
        if broken_rules.notes(Document(model), adapters) is None:
            return False
        if checker.lenient(weights.checkable(model), adapters, full=True) is not None:
            return False
        return self.accepts(model)

    def accepts(self, result: ModelProto) -> bool:
        """Whether strict inference accepts each class in a result."""
        try:
            self._require_types(result)
        except _Refused:
            return False
        return True

    def _require_types(self, result: ModelProto) -> None:
        """Strict inference must accept each class; behind an unknown operator it accepts all."""
        if not self.sources:
            return
        shown = without_ends(result)
        typed = {one.name for one in shown.graph.input}
        untyped = (one.output[0] for one in self.sources if one.output[0] not in typed)
        opaque = _numbers(untyped)
        nodes = [node for node in shown.graph.node if self._owner(node) not in opaque]
        del shown.graph.node[:]
        shown.graph.node.extend(nodes)
        if checker.types(shown, self.plan.adapters) is not None:
            raise _Refused(set())

    def answers(self, found: ModelProto) -> list[Answer | str]:
        """What became of each class, or why the class alone does not tell."""
        made = (t for t in found.graph.initializer if t.name.startswith(self.prefix))
        constants = {tensor.name: content_of(tensor) for tensor in made}
        nodes: list[list[NodeProto]] = [[] for _ in self.keys]
        for node in found.graph.node:
            if node.domain != NOBODY:
                nodes[self._owner(node)].append(node)
        return [self._answer(i, made, constants) for i, made in enumerate(nodes)]

    def _answer(
        self, number: int, made: list[NodeProto], constants: dict[str, bytes]
    ) -> Answer | str:
        deeds = self.journal.deeds[number]
        if deeds.beyond:
            return deeds.beyond
        try:
            inputs = self.plan.operations[self.keys[number][0].signature].inputs
            reader = Reader(number, inputs, constants, self.prefix)
            return reader.answer(self.nodes[number], made, deeds)
        except Beyond as why:
            return str(why)

    def _owner(self, node: NodeProto) -> int:
        for name in node.output:
            if name in self.journal.writers:
                return self.journal.writers[name]
            if found := re.match(r"k(\d+)o", name):
                return int(found[1])
        raise Beyond("a node without a class")


def without_ends(quotient: ModelProto) -> ModelProto:
    """A copy without what gives and takes values; a value that is given is an input by its type."""
    given = {one for node in quotient.graph.node if node.domain == NOBODY for one in node.output}
    shown = ModelProto()
    shown.CopyFrom(quotient)
    del shown.graph.node[:], shown.graph.value_info[:]
    shown.graph.node.extend(node for node in quotient.graph.node if node.domain != NOBODY)
    for info in quotient.graph.value_info:
        (shown.graph.input if info.name in given else shown.graph.value_info).append(info)
    return shown


def _numbers(names: Iterable[str]) -> set[int]:
    return {int(found[1]) for name in names if (found := re.search(r"\bk(\d+)", name))}
