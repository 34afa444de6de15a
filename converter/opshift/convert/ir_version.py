# SPDX-License-Identifier: Apache-2.0
"""Gives a model its IR version, after what needs a later one was written in an older form."""

from __future__ import annotations

from opshift.author.facts import Facts
from opshift.author.registry import Registry
from opshift.author.traits import ByValue
from opshift.convert.aim import ir_of_goal
from opshift.convert.ir import lower, needs
from opshift.convert.ir.features import METADATA, TRAINING
from opshift.convert.state import State
from opshift.errors import Refusal, Refused, RefusedNode, Why
from opshift.model.document import Document


def write_early(state: State) -> None:
    """Writes the older form of content before the steps, where the way wants it so."""
    if not state.way.early:
        return
    done = lower.lower(
        state.skeleton, state.store, state.document.fresh, ir_of_goal(state), drop=(),
        rewrite=True, only=state.way.early, by_value=state.adapters.rules(ByValue),
    )  # fmt: skip
    if done:
        state.notes += done
        state.repaired = True
        state.reopen()


def restamp(state: State) -> None:
    """Sets another IR version and nothing else: what is not in the way is not looked at."""
    before, wanted = state.skeleton.ir_version, int(state.options.ir_version)
    drops = state.options.drop_metadata or state.options.drop_training
    if wanted >= before and not drops:
        state.skeleton.ir_version = wanted
        return
    prefix = state.new_prefix(state.skeleton.SerializeToString())
    state.document = Document(state.skeleton, prefix)
    state.facts = Facts(state.document, state.store, Registry(), lambda: state.skeleton)
    settle_ir(state, moved=False)


def settle_ir(state: State, *, moved: bool) -> None:
    """Gives the model its IR version, what is older in another form being rewritten first."""
    wanted, current = state.options.ir_version, state.skeleton.ir_version
    aim = needs.aim(current, state.document.imports.as_dict(), wanted, moved)
    lowers = aim < current or state.document.added_initializers
    _lower(state, aim, rewrite=lowers and isinstance(wanted, int))
    found = needs.held(state.document, state.facts, aim) if lowers else []
    binding = [one for one in found if one.computes or state.options.strict_ir]
    limit = (state.ir_limit or wanted) if isinstance(wanted, int) else needs.NEWEST
    if any(feature.ir > limit for feature in binding):
        told = [needs.sentence(state.skeleton, feature) for feature in binding]
        raise _refused(state, [Refusal(Why.IR_TOO_LOW, text) for text in told], aim)
    ir = max([aim, *(feature.ir for feature in binding)])
    state.skeleton.ir_version = ir
    state.notes += [
        f"the IR version stays at {feature.ir}, because of {feature.says}" for feature in binding
    ]
    state.notes += needs.skipped((f for f in found if f.ir > ir and f not in binding), ir)


def _lower(state: State, aim: int, *, rewrite: bool) -> None:
    drop = [METADATA] * state.options.drop_metadata + [TRAINING] * state.options.drop_training
    inline = state.runtime is not None and not state.runtime.functions
    inline &= bool(state.skeleton.functions)
    if not (rewrite or drop or inline):
        return
    try:
        done = lower.lower(
            state.skeleton, state.store, state.document.fresh, aim, drop=drop, rewrite=rewrite,
            inline=inline, by_value=state.adapters.rules(ByValue),
        )  # fmt: skip
    except Refusal as refusal:
        raise _refused(state, [refusal], aim) from None
    state.notes += done
    if done:
        state.repaired |= aim >= state.skeleton.ir_version
        state.index()


def _refused(state: State, refusals: list[Refusal], aim: int) -> Refused:
    current = state.skeleton.ir_version
    nodes = [
        RefusedNode("the model", "IR", "", (current, aim), refusal.why, refusal.detail)
        for refusal in refusals
    ]
    nearest = {**state.document.imports.as_dict(), "IR": current}
    return Refused(nodes, nearest, {**state.goal, "IR": aim}, state.crossed())
