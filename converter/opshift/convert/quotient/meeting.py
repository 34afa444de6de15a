# SPDX-License-Identifier: Apache-2.0
"""Casts of two rows that meet: no class tells whether a runtime may merge them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from opshift.convert.cast_chains import CAST, may_lose, target_of, writes_casts
from opshift.convert.classes.proof import Proof
from opshift.convert.quotient.class_journal import MEETING_CASTS
from opshift.convert.quotient.template import INPUT, OUTPUT, Answer, Beyond, Template
from opshift.protos import NodeProto


class End(NamedTuple):
    """A Cast at an end of a row: what it reads or gives there, and the type that it gives."""

    side: int  # INPUT or OUTPUT
    at: int
    to: int


def look(proof: Proof, answers: Mapping[int, Answer], *, came: bool = False) -> None:
    """Goes on only if no Cast that a step wrote meets another one that it may be merged with.

    With `came`, those that the model came with must not meet either.
    """
    kinds = {id(answer): answer for answer in answers.values()}
    written = {
        which: list(_ends(answer.template))
        for which, answer in kinds.items()
        if answer.template is not None and writes_casts(one for _, one, _ in answer.rewritten)
    }
    if not any(written.values()) and not came:
        return
    given: dict[bytes, tuple[int, bool]] = {}
    taken: list[tuple[bytes, int, bool]] = []
    for row, own, ends in _rows(proof, answers, written):
        inputs, outputs = proof.rows.inputs_of(row), proof.rows.outputs_of(row)
        given.update((outputs[one.at], (one.to, own)) for one in ends if one.side == OUTPUT)
        taken += [(inputs[one.at], one.to, own) for one in ends if one.side == INPUT]
    for name, to, own in taken:
        first, was_own = given.get(name, (0, True))
        if first and (came or not (own and was_own)) and may_lose(first, to):
            raise Beyond(MEETING_CASTS)


def _ends(template: Template) -> Iterator[End]:
    """The Casts of a template that read an input of the row, or give an output of it."""
    for node in template.nodes:
        if b"Cast" in node.rest:
            proto = NodeProto.FromString(node.rest)
            for _, side, at in node.places if proto.op_type == "Cast" else ():
                if side in (INPUT, OUTPUT):
                    yield End(side, at, target_of(proto))


def _rows(
    proof: Proof, answers: Mapping[int, Answer], written: Mapping[int, list[End]]
) -> Iterator[tuple[int, bool, list[End]]]:
    """The rows with Casts at their ends, and whether they were Casts before the steps."""
    casts: dict[int, list[End]] = {}
    for signature in {one.signature for one in proof.kinds}:
        operation = proof.memo.operations[signature]
        if operation.key == CAST:
            to = target_of(operation.proto)
            casts[signature] = [End(INPUT, 0, to), End(OUTPUT, 0, to)]
    for row, one in enumerate(proof.classes):
        if one.signature in casts:
            yield row, True, casts[one.signature]
        elif (answer := answers.get(row)) is not None and (ends := written.get(id(answer))):
            yield row, False, ends
