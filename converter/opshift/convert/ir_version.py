# SPDX-License-Identifier: Apache-2.0
"""Sets the IR version of a model, after content of later IR versions is rewritten."""

from __future__ import annotations

from collections.abc import Iterable

from opshift import terms, versions
from opshift.author.facts import Facts
from opshift.author.registry import Registry
from opshift.author.traits import ByValue
from opshift.codes.refusals import Why
from opshift.convert.ir import ir_plan, lower, needs
from opshift.convert.ir.features import BARE, FUNCTIONS, Feature
from opshift.convert.legal.function_rules import called
from opshift.convert.runtime import operator_lacks
from opshift.convert.state import State
from opshift.convert.target_versions import ir_of_goal
from opshift.errors import BadTarget, InvalidModel, Refusal, Refused, RefusedNode
from opshift.model import input_defaults
from opshift.model.document import Document
from opshift.model.scope import tensor_type
from opshift.model.sweep import keep_only
from opshift.protos import IR_VERSION, ModelProto, ValueInfoProto
from opshift.versions import NEWEST_IR


def plan(state: State) -> None:
    """Plans how to rewrite content that a later IR version introduced."""
    rewrite = isinstance(state.options.ir_version, int) or bool(state.strategy.early)
    drop, inline = state.options.drops, _inlines(state)
    if rewrite or drop or inline:
        features = needs.features_above(state.facts, above=0)
        state.lowerings = ir_plan.of_features(features, rewrite=rewrite, drop=drop, inline=inline)


def write_early(state: State) -> None:
    """Rewrites content for an older IR version before the steps, if the strategy requires it."""
    to = ir_of_goal(state)
    features = ir_plan.due(state.lowerings, to, rewrite=True, inline=False)
    if _lowered(
        state, to, [feature for feature in features if feature.says in state.strategy.early]
    ):
        state.repaired = True
        state.reopen()


def require_checkable(ir_version: str | int) -> None:
    """Raises BadTarget for an IR version that the installed onnx cannot check."""
    if isinstance(ir_version, int) and ir_version > IR_VERSION:
        raise BadTarget(
            f"the installed onnx {versions.installed_name()} can check at most IR {IR_VERSION},"
            f" not IR {ir_version}; install a newer onnx, or skip the checks with"
            f" {terms.option('check', 'none')}"
        )


def brings_functions(state: State) -> bool:
    """Returns whether readers of the new IR version use functions that old readers ignored."""
    before, requested_ir = state.skeleton.ir_version, state.options.ir_version
    above = isinstance(requested_ir, int) and before < FUNCTIONS.ir <= requested_ir
    return above and bool(state.skeleton.functions)


def restamp(state: State) -> None:
    """Sets another IR version without reading the nodes."""
    before, requested_ir = state.skeleton.ir_version, int(state.options.ir_version)
    if requested_ir >= before and not state.options.drops:
        state.lowerings = ir_plan.upward()
        state.skeleton.ir_version = requested_ir
        return
    prefix = state.new_prefix(state.skeleton.SerializeToString())
    state.document = Document(state.skeleton, prefix)
    state.facts = Facts(state.document, state.weights, Registry(), lambda: state.skeleton)
    plan(state)
    choose_ir(state, moved=False)


def choose_ir(state: State, *, moved: bool) -> None:
    """Sets the IR version of the result, after rewriting content that this version lacks."""
    requested_ir, current = state.options.ir_version, state.skeleton.ir_version
    goal_ir = needs.wanted_ir(current, state.document.imports, requested_ir, moved)
    lowers = goal_ir < current or bool(state.document.added_initializers)
    features = needs.features_above(state.facts, goal_ir) if lowers else []
    if (
        _lower(state, goal_ir, features, rewrite=lowers and isinstance(requested_ir, int))
        and lowers
    ):
        features = needs.features_above(state.facts, goal_ir)
    binding = _binding(state, features)
    limit = (state.ir_limit or requested_ir) if isinstance(requested_ir, int) else NEWEST_IR
    if any(feature.ir > limit for feature in binding):
        sentences = [needs.sentence(state.skeleton, feature) for feature in binding]
        raise _refused(
            state, [Refusal(Why.IR_TOO_LOW, text) for text in sentences], goal_ir, binding
        )
    ir = max([goal_ir, *(feature.ir for feature in binding)])
    state.notes += _lift(state.skeleton, ir) if moved else []
    state.skeleton.ir_version = ir
    state.notes += map(needs.note_raised, binding)
    state.notes += needs.note_skipped((f for f in features if f.ir > ir and f not in binding), ir)


def _binding(state: State, features: Iterable[Feature]) -> list[Feature]:
    """Returns the content whose IR version the result needs, because it affects results."""
    return [feature for feature in features if feature.computes or state.options.strict_ir]


def _lower(state: State, goal_ir: int, present_features: list[Feature], *, rewrite: bool) -> bool:
    """Rewrites content for an older IR version as planned; returns whether it rewrote any."""
    if rewrite:
        ir_plan.require_planned(state.lowerings, present_features)
    features = ir_plan.due(state.lowerings, goal_ir, rewrite=rewrite, inline=_inlines(state))
    if FUNCTIONS in features:
        state.late = called(state.document)
    try:
        done = _lowered(state, goal_ir, features)
    except Refusal as refusal:
        raise _refused(state, [refusal], goal_ir, present_features) from None
    if done:
        state.repaired |= goal_ir >= state.skeleton.ir_version
        state.index()
    return done


def _lowered(state: State, to: int, features: list[Feature]) -> bool:
    """Rewrites the given kinds of content for an older IR version; returns whether it did."""
    by_value = state.adapters.rules(ByValue) if features else {}
    rewrites = [feature.lower for feature in features if feature.lower is not None]
    done = lower.lower(state.skeleton, state.weights, state.document.fresh, to, rewrites, by_value)
    state.notes += done
    return bool(done)


def _inlines(state: State) -> bool:
    """Returns whether functions are inlined because the runtime does not load them."""
    release, functions = state.runtime, state.skeleton.functions
    if release is None or not functions:
        return False
    return not release.functions or any(operator_lacks.unloaded(functions, release))


def _refused(
    state: State, refusals: list[Refusal], goal_ir: int, features: Iterable[Feature]
) -> Refused:
    current = state.skeleton.ir_version
    nodes = [
        RefusedNode("the model", "IR", "", (current, goal_ir), refusal.why, refusal.detail)
        for refusal in refusals
    ]
    lowest = max((feature.ir for feature in _binding(state, features)), default=current)
    nearest = {**state.document.imports, "IR": lowest}
    dead_ends = ir_plan.dead_ends(state.lowerings, features)
    return Refused(nodes, nearest, {**state.goal, "IR": goal_ir}, state.crossed(), dead_ends)


def _lift(model: ModelProto, ir: int) -> list[str]:
    """Removes the initializers from the inputs for a higher IR version; returns a note if it did.

    Up to IR 3, each initializer is also a graph input and is a constant. From IR 4 on, an
    initializer that is a graph input is a default value, which callers may replace.
    """
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    leaving = [info for info in graph.input if info.name in constants]
    if not model.ir_version < BARE.ir <= ir or not leaving:
        return []
    if (misfit := next(input_defaults.unfit(graph), None)) is not None:
        raise InvalidModel(misfit)  # removing the declaration would hide the fault
    for info in leaving:
        if info != ValueInfoProto(name=info.name, type=tensor_type(constants[info.name])):
            graph.value_info.append(info)  # the declaration has more information than the tensor
    keep_only(graph.input, lambda info: info.name not in constants)
    what = "1 initializer" if len(leaving) == 1 else f"{len(leaving)} initializers"
    why = f"because callers may replace inputs from IR {BARE.ir} on"
    return [f"removed {what} from the graph inputs, {why}"]
