# SPDX-License-Identifier: Apache-2.0
"""What classes are converted to: a version of the default domain, perhaps for a runtime."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from opshift import versions
from opshift.convert.aim import remarks
from opshift.convert.classes.operation import key_of
from opshift.convert.ir.features import BARE
from opshift.convert.quotient.template import Beyond
from opshift.convert.request import NODE_BUDGET, Request
from opshift.errors import BadTarget
from opshift.model import imports
from opshift.model.scope import Key
from opshift.model.walk import nodes_inside
from opshift.opsets import schemas
from opshift.opsets.wanted import Wanted

if TYPE_CHECKING:
    from opshift.convert.classes.proof import Proof
    from opshift.opsets.targets import Ceiling

LOWEST = 7  # below, models are raised to find the types of their values

# What is converted exactly needs no permission, classes need no limit for what they write, and a
# result is labelled when it is there.
_NEEDLESS = frozenset(
    ("target", "ir_version", "allow_approximate", "node_budget", "bump_model_version", "stamp")
)
_WISHES = operator.attrgetter(
    *(f.name for f in dataclasses.fields(Request) if f.name not in _NEEDLESS)
)
_NO_WISHES = _WISHES(Request(LOWEST))


class ClassGoal(NamedTuple):
    """Where the classes of a model lead."""

    to: int  # the version of the default domain
    ir: int | None = None  # the IR version; None where it follows from the version
    row: Ceiling | None = None  # the runtime that the result is for
    unused: frozenset[str] = frozenset()  # the domains whose imports go, because no node needs them
    notes: tuple[str, ...] = ()  # what the report says of the runtime and of these imports
    versions: Mapping[str, int] | None = None  # of all domains, if more than one is named

    @property
    def wanted(self) -> Mapping[str, int]:
        """The wanted versions, by domain."""
        return {"": self.to} if self.versions is None else self.versions

    @property
    def name(self) -> tuple[int, int | None, str]:
        """What tells this goal from others of models with the same imports."""
        return self.to, self.ir, "" if self.row is None else self.row.shown

    @property
    def request(self) -> Request:
        """What the engine is asked for; initializers need not be inputs, as IR 3 wants it."""
        paired = BARE.ir if tells_little(self.to) else "auto"
        # For a runtime, equal forms of nodes are written although the opset stays.
        to = self.to if self.row is None else Wanted(exact={"": self.to})
        known = self.to >= LOWEST  # below, classes only tell what is reached
        return Request(
            to,
            ir_version=paired if self.ir is None else self.ir,
            node_budget=None if known else NODE_BUDGET,
        )


def is_met(options: Request) -> bool:
    """Whether classes may lead to what is asked for."""
    if isinstance(options.target, Wanted):
        return options.target.ceiling is not None and _WISHES(options) == _NO_WISHES
    return (version_of(options) or 0) >= LOWEST


def may_be_refused(options: Request) -> bool:
    """Whether classes may tell at least that what is asked for is refused."""
    return version_of(options) is not None


def tells_little(to: int) -> bool:
    """Whether steps to a version ask what classes often do not tell."""
    return versions.ir_for({"": to}) < BARE.ir


def version_of(options: Request) -> int | None:
    """The version of the default domain, where a request asks for nothing else."""
    to = options.target
    if isinstance(to, Mapping) and to.keys() == {""}:
        to = to[""]
    if not isinstance(to, int) or isinstance(to, bool) or _WISHES(options) != _NO_WISHES:
        return None
    return to if 0 < to <= (schemas.latest("") or 0) else None


def of_model(options: Request, proof: Proof) -> ClassGoal:
    """The goal of a model; a runtime reads a version that depends on the operators."""
    known, target = proof.memo, options.target
    if not isinstance(target, Wanted):
        version = version_of(options)
        assert version is not None, "the request was not looked at"
        return ClassGoal(version, _number(options.ir_version, known.ir_version))
    assert target.ceiling is not None, "the request was not looked at"
    present, operators = dict(known.imports), _operators(proof)
    try:
        goal = target.goal(present, operators)
        raised = target.raises(present, goal)
        ir = target.ir(options.ir_version, known.ir_version, goal, raised=raised)
    except BadTarget:
        raise Beyond("the request") from None
    _require_known(present, goal)
    if target.dips(goal, operators):
        raise Beyond("a version to visit on the way")
    unused = frozenset(present).difference(domain for domain, _ in operators)
    if "" in unused or "" not in goal:
        raise Beyond("versions")
    notes = [*remarks(target.ceiling, present, goal)]
    notes += [imports.removed(one, present[one]) for one in present if one in unused]
    number = _number(ir, known.ir_version)
    wanted = {schemas.normal(domain): version for domain, version in goal.items()}
    return ClassGoal(goal[""], number, target.ceiling, unused, tuple(notes), wanted)


def _number(wanted: str | int, current: int) -> int | None:
    """An IR version that is asked for as a number; None where it follows from the versions."""
    if isinstance(wanted, int):
        return wanted
    return current if wanted == "keep" else None


def _require_known(present: Mapping[str, int], goal: Mapping[str, int]) -> None:
    """Goes on only if the version of the default domain is known, and no other domain moves."""
    for domain, to in goal.items():
        if (domain and to != present.get(domain)) or to > (schemas.latest(domain) or 0):
            raise Beyond("versions")


def _operators(proof: Proof) -> frozenset[Key]:
    """The operators of a model, those inside of nodes included."""
    operations = proof.memo.operations
    nodes = [operations[signature].proto for signature in {one.signature for one in proof.kinds}]
    return frozenset(key_of(one) for node in nodes for one in (node, *nodes_inside(node)))
