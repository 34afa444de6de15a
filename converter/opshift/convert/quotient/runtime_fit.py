# SPDX-License-Identifier: Apache-2.0
"""Whether a runtime certainly runs a model and its result as the steps alone write it.

Then a conversion for the runtime writes no other forms of nodes, and has nothing to say of them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from opshift.author.verdicts import FORM
from opshift.convert import leave, planner
from opshift.convert.classes.rows import GraphField, names_in, names_of
from opshift.convert.legal import runtime
from opshift.convert.quotient import Key, meeting, skeleton_facts
from opshift.convert.quotient.class_journal import input_name, output_name
from opshift.convert.quotient.class_plan import ClassPlan, Quotient, without_ends
from opshift.convert.quotient.template import Answer, Beyond, Template, written
from opshift.convert.verdict_edges import edge_at
from opshift.opsets.types import element_of
from opshift.protos import GraphProto, ModelProto

if TYPE_CHECKING:
    from opshift.author.facts import Facts
    from opshift.convert.classes.proof import Proof
    from opshift.opsets.targets import Ceiling, Form

UNFIT = "a node that the runtime may not run"
UNTYPED = "a type that is not proved, for a runtime"


def look(
    proof: Proof,
    plan: ClassPlan,
    templates: Mapping[Key, Template | None],
    answers: Mapping[int, Answer],
    row: Ceiling,
) -> None:
    """Goes on only if the runtime has certainly nothing against a node, before and after."""
    if proof.nested and any(form.read_within for form in row.forms):
        raise Beyond("graphs inside of nodes, for a runtime")
    outputs = names_in(proof.data, proof.others, GraphField.OUTPUT)
    if row.outputs and any(plan.tokens(proof.values[name]) & {*row.outputs} for name in outputs):
        raise Beyond("an output that the runtime does not hand out")
    if any(form.narrowed for form in row.forms):
        meeting.look(proof, answers, came=True)
    new = {key: template for key, template in templates.items() if key not in plan.fit}
    if new:
        _Fit(plan, row, new).require()
        plan.fit.update(new)


class _Fit:
    """One node of each of some classes, and what becomes of it."""

    def __init__(
        self, plan: ClassPlan, row: Ceiling, classes: Mapping[Key, Template | None]
    ) -> None:
        self.plan = plan
        self.row = row
        self.classes = classes

    def require(self) -> None:
        """Goes on only if the runtime has nothing against one of the nodes."""
        for (one, *_), template in self.classes.items():
            if not all(self.plan.types(one)):
                raise Beyond(UNTYPED)
            if template is not None and template.inside:
                raise Beyond("a graph in what a step writes, for a runtime")
        came, made = self._facts(self._before()), self._facts(self._after())
        for facts in (came, made):
            self._require_typed(facts)
            self._require_forms(facts)
        self._require_writes(came)
        adapters, document = self.plan.adapters, made.document
        if (
            leave.operators(came.document, adapters, None, self.row)
            or runtime.kernels(came.document, self.row, came)
            or runtime.lacking(document, self.row)
            or runtime.forms(document, self.row, made)
            or runtime.kernels(document, self.row, made)
            or runtime.unknown(document, self.row)
        ):
            raise Beyond(UNFIT)

    def _require_typed(self, facts: Facts) -> None:
        """Goes on only if inference knows the element type of each value that a node gives."""
        scopes = facts.document.main.root.scopes
        if not all(
            element_of(facts.type(scope, name)) for scope in scopes for name in scope.producers
        ):
            raise Beyond(UNTYPED)

    def _require_forms(self, facts: Facts) -> None:
        """Goes on only if no node has a form that depends on more than a class tells."""
        root = facts.document.main.root
        for form in self.row.forms:
            for scope, at in root.index.get(("", form.op), ()):
                type_of = functools.partial(facts.type, scope)
                if _asks_ranks(form) or (
                    _asks_more(form) and runtime.has_form(scope.node(at), root, form, type_of)
                ):
                    raise Beyond("a form that a class does not tell")

    def _require_writes(self, came: Facts) -> None:
        """Goes on only if no form on the way is written in operators that the runtime lacks."""
        adapters, present = self.plan.adapters, came.document.main.root.index
        way = {op for domain, one in present if not domain for op in self._way(one)}
        for op in sorted(way) if self.row.without else ():
            if adapters.get("", op, *FORM) is not None:
                keys = [("", one) for one in edge_at(adapters, "", op, *FORM).within("")]
                if any(one.names(key) for one in self.row.without for key in keys):
                    raise Beyond(UNFIT)

    def _way(self, op: str) -> Collection[str]:
        way = planner.way_of(self.plan.adapters, "", op, self.plan.start, self.plan.to)
        return {op, *(name for edge in way.values() for name in edge.within(""))}

    # -- the nodes ---------------------------------------------------------------------------

    def _before(self) -> ModelProto:
        """One node of each class as it came, whose inputs are those of the model."""
        return without_ends(Quotient(self.plan, list(self.classes)).model)

    def _after(self) -> ModelProto:
        """The nodes that these classes become."""
        model = self._before()
        for imported in model.opset_import:
            imported.version = self.plan.to if imported.domain == "" else imported.version
        came = list(model.graph.node)
        del model.graph.node[:]
        for number, ((one, *_), template) in enumerate(self.classes.items()):
            if template is None:
                model.graph.node.append(came[number])
            else:
                fields = b"".join(self._written(number, one.signature, template))
                model.graph.MergeFrom(GraphProto.FromString(fields))
        return model

    def _written(self, number: int, signature: int, template: Template) -> Iterator[bytes]:
        operation = self.plan.operations[signature]
        inputs = [input_name(number, i).encode() for i in range(len(operation.inputs))]
        outputs = names_of(operation.signature[2], "o")
        given = [output_name(number, i).encode() for i in range(len(outputs))]
        return written(template, inputs, given, b"k%d" % number)

    def _facts(self, model: ModelProto) -> Facts:
        return skeleton_facts.of_model(model, model.SerializeToString(), self.plan.adapters)


def _asks_ranks(form: Form) -> bool:
    """Whether a form depends on a rank, of which the whole model may know more."""
    return form.rank is not None or form.single is not None


def _asks_more(form: Form) -> bool:
    """Whether a form depends on values or neighbours; those that `look` knows do not count."""
    other = dataclasses.replace(form, read_within=False, narrowed=False)
    return bool(form.holds) or other.depends_on_neighbours
