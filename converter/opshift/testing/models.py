# SPDX-License-Identifier: Apache-2.0
"""Asserts that a model converts to an equal model, or is refused for an expected reason."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from opshift.author import registry
from opshift.author.registry import Registry
from opshift.codes.refusals import Why
from opshift.convert.api import convert_version
from opshift.convert.legal import checker
from opshift.convert.request import AnyTarget, AssumptionName, ConversionOptions
from opshift.errors import InvalidModel, Refused
from opshift.protos import ModelProto
from opshift.testing.model_text import parse_model
from opshift.verify import generate, oracle

Evaluate: TypeAlias = Callable[[ModelProto, Mapping[str, Any]], Sequence[Any]]
ROUNDING = 4  # units in the last place: the same arithmetic, rounded in another order


def assert_model_converts(
    model: ModelProto | str,
    to: AnyTarget,
    *,
    gives: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    evaluate: Evaluate | None = None,
    allow_approximate: bool = False,
    assume: Collection[AssumptionName] = (),
    rtol: float = 0.0,
    atol: float = 0.0,
    ulp: int = ROUNDING,
) -> ModelProto:
    """Asserts that the model converts to `to`, legal after every step and equal in numbers.

    `gives` lists the expected operators in order. `evaluate(model, inputs)` computes models that
    no engine of opshift can compute.
    """
    before, adapters = parsed(model), registry.default()
    strict = checker.whole(before, adapters, full=True) is None
    options: ConversionOptions = {"allow_approximate": allow_approximate, "assume": assume}
    try:
        after: ModelProto = convert_version(before, to, **options)  # checks the rules, too
    except Refused as refused:
        raise AssertionError(f"refused: {refused}") from None
    objection = checker.whole(after, adapters, full=strict)
    _expect(not objection, f"the checker rejects the result: {objection}")
    if gives is not None:
        given = " ".join(node.op_type for node in after.graph.node)
        _expect(given == gives, f"gives {given!r}, not {gives!r}")
    if after == before:  # and computes the same, even if no engine can compute it
        return after
    judge = evaluate or oracle.evaluate
    sets = [inputs] if inputs is not None else _generated(before, adapters)
    for values in sets:
        expected, actual = _computed(judge, before, values), _computed(judge, after, values)
        told = oracle.compare(expected, actual, rtol=rtol, atol=atol, ulp=ulp)
        _expect(told is None, f"the numbers differ: {told}")
    return after


def assert_refused(
    model: ModelProto | str,
    to: AnyTarget,
    *,
    why: Why | None = None,
    allow_approximate: bool = False,
    assume: Collection[AssumptionName] = (),
) -> Refused:
    """Asserts a refusal in which every blocker has the expected reason; returns it."""
    try:
        convert_version(parsed(model), to, allow_approximate=allow_approximate, assume=assume)
    except Refused as refused:
        reasons = {one.why for one in refused.refusals}
        _expect(why is None or reasons == {why}, f"refused for other reasons: {refused}")
        return refused
    raise AssertionError(f"it converts to {to}, though a refusal was expected")


def assert_invalid(model: ModelProto | str, to: AnyTarget, *, match: str) -> InvalidModel:
    """Asserts that the model is found invalid, in a sentence that contains `match`."""
    try:
        convert_version(parsed(model), to)
    except InvalidModel as invalid:
        _expect(match in str(invalid), f"invalid for another reason: {invalid}")
        return invalid
    except Refused as refused:
        raise AssertionError(f"refused, not invalid: {refused}") from None
    raise AssertionError(f"it converts to {to}, though it is not valid")


def parsed(model: ModelProto | str) -> ModelProto:
    """A model from onnx's text format, `<ir_version: 8, opset_import: ["" : 13]> g (...) ...`."""
    return parse_model(model) if isinstance(model, str) else model


def _generated(model: ModelProto, adapters: Registry) -> list[Mapping[str, Any]]:
    return [case.values for case in generate.cases(model, 0, generate.FIRST, adapters)]


def _computed(judge: Evaluate, model: ModelProto, values: Mapping[str, Any]) -> list[Any]:
    try:
        return list(judge(model, values))
    except oracle.OracleError as error:
        raise AssertionError(f"no engine can compute it ({error}); give evaluate=") from None


def _expect(condition: bool, sentence: str) -> None:
    if not condition:
        raise AssertionError(sentence)
