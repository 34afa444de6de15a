# SPDX-License-Identifier: Apache-2.0
"""A conversion by classes: a model whose classes are known is converted without its nodes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from opshift import versions
from opshift.author.facts import Facts
from opshift.author.registry import Registry
from opshift.convert import declare
from opshift.convert.blockers import Outgrown
from opshift.convert.classes import local_functions
from opshift.convert.classes.facets import (
    PROVED,
    UNKNOWN,
    has_rank,
)
from opshift.convert.classes.memo import Memo
from opshift.convert.classes.node_class import NodeClass
from opshift.convert.classes.proof import ClassBudget, Proof, prove, proves
from opshift.convert.classes.rows import GraphField, Unordered, Unproven
from opshift.convert.ir import needs
from opshift.convert.ir.features import BARE, TYPES, Feature
from opshift.convert.ir.lift import lift
from opshift.convert.legal import checker
from opshift.convert.quotient import (
    ClassAnswer,
    Key,
    Templates,
    broken_rules,
    function_conversion,
    goal,
    later_types,
    meeting,
    new_constants,
    skeleton_facts,
    untouched,
)
from opshift.convert.quotient.class_journal import VAGUE
from opshift.convert.quotient.class_plan import REFUSED, ClassPlan
from opshift.convert.quotient.function_bodies import NO_BODIES
from opshift.convert.quotient.goal import LOWEST, ClassGoal
from opshift.convert.quotient.instantiate import Instance
from opshift.convert.quotient.model_types import declared_in
from opshift.convert.quotient.row_keys import RowKeys
from opshift.convert.quotient.step_counts import CrossingCounts
from opshift.convert.quotient.template import Answer, Beyond, Blocked, Vague
from opshift.convert.quotient.told_rows import ToldRows
from opshift.convert.request import Request
from opshift.model import arrays, order, weights
from opshift.model.bytes import wire
from opshift.model.bytes.outline import Content
from opshift.model.document import Document
from opshift.model.names import unused_prefix
from opshift.model.walk import containers
from opshift.opsets import schemas
from opshift.protos import IR_VERSION, GraphProto, ModelProto, OperatorSetIdProto, TypeProto
from opshift.report import Report

if TYPE_CHECKING:
    from opshift.convert.quotient.class_refusal import ClassRefusal, Unclear
    from opshift.errors import Refused

_IR, _GRAPH, _IMPORT = 1, 7, 8
_HEAD = frozenset((_IR, 2, 3, 4, 5, 6, _GRAPH, _IMPORT, 14, local_functions.FIELD))
_PARTS = frozenset(GraphField) - {GraphField.NODE, GraphField.SPARSE}
MANY_CLASSES = 200  # for which a refusal by classes pays only with many nodes of each
FEWEST_ROWS = 3  # of one of many classes, on average
MOST_REFUSALS = 64  # of models, which are remembered for their next conversions
ALIKE = 20  # nodes of one class, from which on a class costs less than they do

_Answer = TypeVar("_Answer")

TO_CONVERT = ClassBudget(200, 4, kinds=2)


def convert(
    data: bytes, options: Request, adapters: Registry, *, carved: bool = True
) -> ClassAnswer:
    """The converted model with the report, or the refusal, if its classes tell it.

    The payloads of a model that is `carved` are elsewhere.
    """
    if not (goal.is_met(options) or goal.may_be_refused(options)):
        return ClassAnswer(None, False, "the request")
    try:
        return _convert(data, options, adapters, carved=carved)
    except Unordered as why:
        model = ModelProto.FromString(data)
        if not order.repair(model):
            return ClassAnswer(None, False, str(why))
    return _convert_sorted(model, options, adapters)


def _convert_sorted(model: ModelProto, options: Request, adapters: Registry) -> ClassAnswer:
    """The converted model whose nodes had to be sorted; onnx has that against it."""
    try:
        found = _convert(model.SerializeToString(), options, adapters)
    except Unordered as why:
        return ClassAnswer(None, False, str(why))
    if found.result is None:  # the order of refused nodes is that of the nodes as they came
        return ClassAnswer(None, False, found.why)
    made, report = found.result
    notes = (order.SORTED, *report.notes)
    return ClassAnswer((made, dataclasses.replace(report, notes=notes, repaired=True)), False)


def _convert(
    data: bytes, options: Request, adapters: Registry, *, carved: bool = True
) -> ClassAnswer:
    work = functools.partial(_converted_or_refused, options=options)
    try:
        return _asked(work, data, adapters, carved=carved)
    except Unordered:
        raise
    except Unproven as why:
        return ClassAnswer(None, False, str(why))
    except (Beyond, Outgrown) as why:
        return ClassAnswer(None, True, str(why))


def _converted_or_refused(proof: Proof, options: Request) -> ClassAnswer:
    """The converted model, or the refusal of some classes."""
    work = _Work(proof, goal.of_model(options, proof))
    try:
        return ClassAnswer(work.done(), True)
    except Blocked as why:
        if proof.memo.is_unfolded:
            raise
        blocked = str(why)
    try:
        return ClassAnswer(None, True, blocked, work.refused(options))
    except (Beyond, Outgrown) as why:
        return ClassAnswer(None, True, f"{blocked}, and {why}")


def _asked(
    work: Callable[[Proof], _Answer], data: bytes, adapters: Registry, *, carved: bool = True
) -> _Answer:
    """What the classes of a model answer, once more if they lacked values that numpy folds."""
    proved = functools.partial(
        prove, data, adapters, budget=TO_CONVERT, to_convert=True, carved=carved
    )
    proof = proved()
    try:
        return work(proof)
    except Beyond:
        if not proof.memo.is_unfolded:
            raise
    arrays.load()
    return work(proved())


def reaches(data: bytes, options: Request, adapters: Registry) -> bool:
    """Whether the classes of a model prove that a request can be met; nothing is converted."""
    if goal.version_of(options) is None or options.ir_version != "auto":
        return False

    def look(proof: Proof) -> bool:
        _require_repetition(proof)
        work = _Work(proof, goal.of_model(options, proof))
        work.ir = work.aim = max(work.ir, BARE.ir)
        work.answered()
        return True

    try:
        return _asked(look, data, adapters)
    except (Unproven, Beyond, Outgrown):
        return False


def _require_repetition(proof: Proof) -> None:
    """Goes on only where classes pay, although they often do not tell what is asked for."""
    if len(proof.kinds) * ALIKE > len(proof.classes):
        raise Beyond("few nodes of a class")


class _Work:
    def __init__(self, proof: Proof, aim: ClassGoal) -> None:
        self.proof = proof
        self.goal = aim
        self.to = aim.to
        self.memo: Memo = proof.memo
        self.imports = dict(self.memo.imports)
        self.start = self.imports.get("", 0)
        known, moved = schemas.latest("") or 0, self.start != self.to
        if not LOWEST <= self.start <= known or self.memo.ir_version < 3:
            raise Beyond("versions")
        self.after = {d: v for d, v in self.imports.items() if d not in aim.unused} | {"": self.to}
        self.aim = self._ir_version(moved=moved)
        keeps = aim.ir is not None or self.aim == self.memo.ir_version
        if not moved and (aim.row is None or not keeps):
            raise Beyond("versions")
        self.stays = self.aim < BARE.ir <= self.memo.ir_version
        self.ir = BARE.ir if self.stays else self.aim
        if goal.tells_little(self.to):
            _require_repetition(proof)
        self._asked: Mapping[int, Key] = {}  # the classes of the rows that a step looks at
        self._classes: Sequence[NodeClass] = proof.classes  # of which the answers were asked
        self.keys = RowKeys(proof)
        self._told_rows: Collection[int] = ()  # those with what the whole model tells
        self.bodies = NO_BODIES
        self.broken: list[str] = []  # the notes about rules that the model broke

    def _ir_version(self, *, moved: bool) -> int:
        """The wanted IR version."""
        asked = "auto" if self.goal.ir is None else self.goal.ir
        aim = needs.aim(self.memo.ir_version, self.after, asked, moved=moved)
        if self.goal.ir is not None and not BARE.ir <= aim <= IR_VERSION:
            raise Beyond("the IR version")
        return aim

    def done(self) -> tuple[bytes, Report]:
        """The converted model and the report; to a low version classes tell refusals alone."""
        if self.to < LOWEST:
            self._require_known_parts()
            raise Blocked("the request")
        classes, answers = self.answered()
        new_constants.look(self.proof, classes, answers)
        if self.goal.row is not None:
            from opshift.convert.quotient import runtime_fit  # most conversions name no runtime

            known = {key: one for (_, key), one in self._templates(answers).items()}
            runtime_fit.look(self.proof, self._plan(), known, answers, self.goal.row)
        prefix = unused_prefix(self.proof.data).encode()
        instance = Instance(self.proof, answers, prefix)
        pieces = instance.graph()
        functions = self.bodies.named(prefix.decode(), instance.made)
        self._raise_ir(answers)
        made = b"".join(self._model(pieces, functions))
        notes = [*self._held_up(made), *self._notes(made, answers)]
        written = False
        lifts = self.memo.ir_version < BARE.ir and self.start != self.to
        ranks = self._may_lose_ranks(answers)
        if lifts or ranks:
            model = ModelProto.FromString(made)
            written = ranks and self._declares_ranks(model)
            if lifts:
                model.ir_version = self.memo.ir_version
                notes = [*lift(model, self.ir), *notes]
                model.ir_version = self.ir
            made = model.SerializeToString() if lifts or written else made
        if self._is_unsure(answers, written=written):
            self._look_at_new_ranks(made)
        return made, self._report(answers, instance.nodes, [*self.broken, *self.goal.notes, *notes])

    def answered(self) -> tuple[Sequence[NodeClass], dict[int, Answer]]:
        """The class of each row, and the answer for each row that a step looks at."""
        self._require_known_parts()
        classes: Sequence[NodeClass] = self.proof.classes
        try:
            answers = self._answers(classes)
        except Vague:
            if self.memo.is_unfolded:
                raise  # folded, the classes may tell
            classes = self._told(self._lacking_rows())
            answers = self._answers(classes)
        self.bodies = function_conversion.of_model(self.proof, self._plan(), self.goal, self.aim)
        self._look_at_declarations(answers)
        meeting.look(self.proof, answers)
        return classes, answers

    def _require_known_parts(self) -> None:
        """Goes on only if all parts of the model are understood, and its rules are kept."""
        fields = {number for number, *_ in self.proof.head}
        if not _HEAD.issuperset(fields) or not _PARTS.issuperset(self.proof.others):
            raise Beyond("a part of the model or of its graph that is not understood")
        if self.ir < BARE.ir:
            raise Beyond("the IR version")
        head = Document(self.proof.shown)
        broken = broken_rules.notes(head, self.proof.adapters)
        if broken is None:
            raise Beyond("a rule that the model breaks")
        self.broken = broken

    def _may_lose_ranks(self, answers: Mapping[int, Answer]) -> bool:
        return self.to < declare.AXES_MAY_BE_NEGATIVE and self._rewrites(answers)

    def _declares_ranks(self, model: ModelProto) -> bool:
        return declare.ranks(model.graph, self.to, self.proof.adapters, self._confirmed)

    def _confirmed(self, name: str) -> TypeProto | None:
        """The type of a value that came, if its rank does not come from a declaration."""
        facet = self.memo.facets[self.proof.values.get(name.encode(), UNKNOWN)]
        if facet.trust & PROVED and facet.ranked is not None and has_rank(facet.ranked):
            return TypeProto.FromString(facet.ranked)
        return self._facts.confirmed(self._facts.document.main.root.top, name)

    def _rewrites(self, answers: Mapping[int, Answer]) -> bool:
        """Whether a step writes any node in another form, in the graph or in a function."""
        bodies = self.bodies.rewritten.values()
        return any(bodies) or any(one.rewritten for one in answers.values())

    def _is_unsure(self, answers: Mapping[int, Answer], *, written: bool) -> bool:
        """Whether onnx may know types in the result that no class was checked with."""
        # A call may tell more where its function is written anew.
        may_differ = self._lacks_ranks() or bool(self.memo.functions.protos)
        return may_differ and (written or not self._follows(answers))

    def _lacks_ranks(self) -> bool:
        """Whether some class was checked without ranks, which onnx may infer in the result."""
        kinds = {self.memo.facets[number].kind for number in self.proof.facets}
        return not all(kind is not None and has_rank(kind) for kind in kinds)

    def _follows(self, answers: Mapping[int, Answer]) -> bool:
        known = self.bodies.later_types or self._plan().later_types
        return later_types.follow(self._templates(answers), known)

    def _templates(self, answers: Mapping[int, Answer]) -> Templates:
        """The template of each class of the model; None where its nodes stay."""
        came, asked = self.proof.classes, self._asked
        looked = {came[row] for row in asked}
        apart = [one for one in self.proof.kinds if one not in looked]
        found: Templates = {(one, untouched(one)): None for one in apart}
        found.update(((came[row], key), answers[row].template) for row, key in asked.items())
        return found

    def _look_at_new_ranks(self, made: bytes) -> None:
        """Goes on only if onnx has nothing against ranks that it knows in the result alone."""
        if proves(made, self.proof.adapters):
            return
        view = weights.checkable(ModelProto.FromString(made), made)
        if checker.lenient(view, self.proof.adapters, full=True) is not None:
            raise Beyond("an objection to the result")

    def _held_up(self, made: bytes) -> list[str]:
        """The note that initializers, which are no inputs, hold up the IR version."""
        if not self.stays or self.memo.functions.protos:
            return []
        graph = ModelProto.FromString(made).graph
        if not _has_bare(graph):
            raise Beyond("the IR version")
        content = needs.of_content(Content(made), (), bare=True, above=self.aim)
        binding = [one for one in content if one.computes]
        if any(one.ir > self.ir for one in binding):
            raise Beyond("the IR version")
        return [*map(needs.stays, binding)]

    def _raise_ir(self, answers: Mapping[int, Answer]) -> None:
        """Raises the IR version to the one that functions hold up, as nothing else does."""
        if self.memo.functions.protos and self._lowers(answers):
            binding = [one for one in self._above(self.bodies.model) if one.computes]
            if binding and self.goal.ir is not None:
                raise Beyond("the IR version")
            self.ir = max([self.aim, *(one.ir for one in binding)])

    def _above(self, model: ModelProto) -> list[Feature]:
        """The content of a model that came with a later IR version than the wanted one."""
        graphs = (one for one in containers(model) if isinstance(one, GraphProto))
        bare = any(map(_has_bare, graphs))
        content = Content(model.SerializeToString())
        return needs.of_content(content, (), bare=bare, above=self.aim)

    def _lowers(self, answers: Mapping[int, Answer]) -> bool:
        """Whether the result may hold content of a later IR version than it has."""
        return self.aim < self.memo.ir_version or any(one.placed for one in answers.values())

    def _notes_beside_functions(self, made: bytes, answers: Mapping[int, Answer]) -> list[str]:
        """What the report says of content that holds up the IR version, or that is skipped."""
        found = self._above(ModelProto.FromString(made)) if self._lowers(answers) else []
        binding = [one for one in found if one.computes]
        if max([self.aim, *(one.ir for one in binding)]) != self.ir:
            raise Beyond("the IR version")
        others = (one for one in found if one.ir > self.ir and not one.computes)
        return [*map(needs.stays, binding), *needs.skipped(others, self.ir)]

    def _notes(self, made: bytes, answers: Mapping[int, Answer]) -> list[str]:
        """What the report says of metadata that readers of the IR version skip."""
        if self.memo.functions.protos:
            return self._notes_beside_functions(made, answers)
        noted = self.proof.noted or GraphField.METADATA in self.proof.others
        lowers = self.ir < self.memo.ir_version or any(one.placed for one in answers.values())
        if not lowers or not (noted or self.goal.ir is not None):
            return []
        if self.stays:
            raise Beyond("the IR version")
        found = needs.of_content(Content(made), (), bare=True, above=self.ir)
        if any(feature.computes for feature in found):
            raise Beyond("content that came with a later IR version")
        return needs.skipped(found, self.ir)

    # -- classes -----------------------------------------------------------------------------

    def _answers(self, classes: Sequence[NodeClass]) -> dict[int, Answer]:
        """The answer for each row that a step looks at."""
        plan = self._plan()
        keys = self._asked = self.keys.of(plan, classes)
        self._classes = classes
        asked = dict.fromkeys(keys.values())
        if frozenset(asked) in plan.blocked:
            raise Blocked(REFUSED)
        if new := [key for key in asked if key not in plan.answers]:
            plan.learn(new, self.ir)
        found: dict[Key, Answer] = {}
        for key in asked:
            answer = plan.answers.get(key)
            if not isinstance(answer, Answer):
                raise self._lacking(plan, asked)
            found[key] = answer
        if any(answer.renamed for answer in found.values()):
            self._require_own_names(row for row, key in keys.items() if found[key].renamed)
        return {row: found[key] for row, key in keys.items()}

    def _require_own_names(self, rows: Iterable[int]) -> None:
        """Goes on only if no name of these rows is that of another node."""
        names = [name for row in rows for name in self.keys.names(row)]
        if names and not self.keys.repeated().isdisjoint(names):
            raise Beyond("a name of several nodes")

    def _lacking(self, plan: ClassPlan, keys: Iterable[Key]) -> Beyond:
        """Why some class has no answer; `Vague` if all that lacks are types."""
        whys = {key: plan.answers.get(key) or REFUSED for key in keys}
        lacking = [(_kind(why), key, why) for key, why in whys.items() if isinstance(why, str)]
        kind, key, why = max(lacking, key=lambda one: _KINDS.index(one[0]))
        op = self.memo.operations[key[0].signature].proto.op_type
        return kind(f"{op}: {why}")

    # -- refusals ----------------------------------------------------------------------------

    def refused(self, options: Request) -> Refused:
        """The refusal of the model; goes on only if its classes tell all of it."""
        from opshift.convert.quotient.class_refusal import Unclear
        from opshift.convert.quotient.refused_rows import RefusedRows

        if options.allow_approximate:
            raise Beyond("approximations, which are allowed")
        if self.memo.functions.protos:
            raise Beyond("functions, whose nodes may be refused, too")
        found, keys = self._class_refusal(self._classes)
        if isinstance(found, Unclear) and found.vague:
            vague = {row for row, key in self._asked.items() if key in found.vague}
            found, keys = self._class_refusal(self._told(vague.union(self._told_rows)))
        if isinstance(found, Unclear):
            raise Beyond(found.why)
        plan = self._plan()
        if len(plan.blocked) < MOST_REFUSALS:
            plan.blocked.add(frozenset(self._asked.values()))
        answers = found.answers
        self._require_own_names(row for row, key in self._asked.items() if answers[key].renamed)
        rows = RefusedRows(self.proof, found, keys, self.keys.name)
        return rows.refused(self.goal.wanted, options.node_budget)

    def _class_refusal(
        self, classes: Sequence[NodeClass]
    ) -> tuple[ClassRefusal | Unclear, Mapping[int, Key]]:
        """The refusal of the classes of the rows, and the key of each row."""
        from opshift.convert.quotient import class_refusal

        plan, declared = self._plan(), declared_in(self.proof)
        self._asked = self.keys.of(plan, classes)
        keys = {row: self._asked.get(row) or untouched(one) for row, one in enumerate(classes)}
        every = dict.fromkeys(keys.values())
        if len(every) > MANY_CLASSES and len(classes) < FEWEST_ROWS * len(every):
            raise Beyond("few nodes of a class")
        asked = (frozenset(every), declared)
        if (found := plan.refusals.get(asked)) is None:
            if len(plan.refusals) >= MOST_REFUSALS:
                plan.refusals.clear()
            paired = versions.ir_for({"": self.to})
            ir = paired if self.goal.ir is None else min(paired, self.goal.ir)
            found = class_refusal.find(plan, self.goal, list(every), declared, ir)
            plan.refusals[asked] = found
        return found, keys

    def _lacking_rows(self) -> list[int]:
        """The rows whose classes have no answer."""
        known = self._plan().answers
        return [row for row, key in self._asked.items() if not isinstance(known.get(key), Answer)]

    def _told(self, lacking: Collection[int]) -> list[NodeClass]:
        """The class of each row; of these rows, the whole model tells more."""
        self._told_rows = lacking
        return ToldRows(self.proof, self._facts).classes(lacking)

    def _plan(self) -> ClassPlan:
        with self.memo.lock:
            plan = self.memo.answers.get(self.goal.name)
            if not isinstance(plan, ClassPlan):
                plan = ClassPlan(self.memo, self.start, self.goal)
                self.memo.answers[self.goal.name] = plan
        if plan.generation is not self.proof.generation:
            raise Beyond("the memo has begun anew")
        return plan

    def _look_at_declarations(self, answers: Mapping[int, Answer]) -> None:
        """Goes on only where the inputs contradict no declaration, and no type is younger."""
        kinds = map(self.memo.tokens, self.proof.facets)
        if any(TYPES.get(one, 0) > self.aim for kind in kinds for one in kind):
            raise Beyond("a type that came with a later IR version")
        if not self._rewrites(answers):
            return
        declared = GraphField.VALUE_INFO in self.proof.others
        informed = not self.memo.informed.isdisjoint([one.row for one in self.proof.kinds])
        if declared and informed and self._corrects():
            raise Beyond("a declaration that the inputs contradict")

    def _corrects(self) -> bool:
        """Whether a declaration is wrong: a class, which has no symbols, does not tell."""
        return self._facts.correct() > 0

    @functools.cached_property
    def _facts(self) -> Facts:
        """The facts about the whole model as it came."""
        data = self.proof.data
        return skeleton_facts.of_model(ModelProto.FromString(data), data, self.proof.adapters)

    # -- the result --------------------------------------------------------------------------

    def _model(
        self, graph: list[bytes | memoryview], functions: Iterable[bytes]
    ) -> Iterator[bytes | memoryview]:
        data, bodies = memoryview(self.proof.data), iter(functions)
        for number, start, body, end in self.proof.head:
            if number == _GRAPH:
                yield wire.header(_GRAPH, sum(map(len, graph)))
                yield from graph
            elif number == local_functions.FIELD:
                yield wire.framed(number, next(bodies))
            elif number == _IR:
                yield b"\x08" + wire.varint(self.ir)
            elif number == _IMPORT:
                imported = OperatorSetIdProto.FromString(self.proof.data[body:end])
                if imported.domain in self.after:
                    if imported.version != self.after[imported.domain]:  # it may be absent
                        imported.version = self.after[imported.domain]
                    yield wire.framed(_IMPORT, imported.SerializeToString())
            else:
                yield data[start:end]

    def _report(self, answers: Mapping[int, Answer], nodes: int, notes: list[str]) -> Report:
        counts = CrossingCounts()
        counts.add_rows(answers.values())
        counts.add_bodies(self.bodies)
        return Report(
            self.imports,
            self.after,
            self.memo.ir_version,
            self.ir,
            tuple(counts.reports(self.start, self.to)),
            notes=tuple(notes),
            nodes_before=self.proof.nodes + self.bodies.before,
            nodes_after=nodes + self.bodies.after,
        )


_KINDS: Sequence[type[Beyond]] = (Blocked, Vague, Beyond)  # those last that no facts help


def _kind(why: str) -> type[Beyond]:
    """What is raised for a class without an answer."""
    if why == REFUSED:
        return Blocked
    return Vague if why in VAGUE else Beyond


def _has_bare(graph: GraphProto) -> bool:
    """Whether an initializer of a graph is no input of it."""
    return not {one.name for one in graph.initializer} <= {one.name for one in graph.input}
