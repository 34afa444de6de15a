# SPDX-License-Identifier: Apache-2.0
"""Values that a step made constant: the classes of their readers take them for variable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opshift.convert.classes.facets import VARIABLE
from opshift.convert.classes.node_class import NodeClass
from opshift.convert.classes.proof import Proof
from opshift.convert.quotient.template import CONSTANT, OUTPUT, Answer, Beyond, Template
from opshift.protos import NodeProto


def look(proof: Proof, classes: Sequence[NodeClass], answers: Mapping[int, Answer]) -> None:
    """Goes on only if no row that a step looks at reads a value that another step made constant."""
    written = {id(one.template): one.template for one in answers.values() if one.template}
    constant = {which: set(_constant(template)) for which, template in written.items()}
    if not any(constant.values()):
        return
    rows = proof.rows
    made = {
        rows.outputs_of(row)[at]
        for row, answer in answers.items()
        for at in constant.get(id(answer.template), ())
    }
    for row in answers:
        for name, number in zip(rows.inputs_of(row), classes[row].inputs, strict=True):
            if name in made and proof.memo.facets[number].trust & VARIABLE:
                raise Beyond("a value that a step makes constant")


def _constant(template: Template) -> Iterator[int]:
    """The outputs of a template that are constants under another name."""
    for node in template.nodes:
        sides = [side for _, side, _ in node.places]
        if sides == [CONSTANT, OUTPUT] and NodeProto.FromString(node.rest).op_type == "Identity":
            yield node.places[1][2]
