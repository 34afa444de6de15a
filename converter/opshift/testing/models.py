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
ROUNDING = 4  # units in the last place: the same arithmetic in another order rounds differently


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
    """Asserts that the model converts to `to`, is valid after every step, and has equal results.

    `gives` lists the operators of the result, in order. `evaluate(model, inputs)` computes models
    for which opshift has no engine.
    """
    before, adapters = parsed(model), registry.default()
    strict = checker.whole(before, adapters, full=True) is None
    options: ConversionOptions = {"allow_approximate": allow_approximate, "assume": assume}
    try:
        # this also checks the rules of the author API
        after: ModelProto = convert_version(before, to, **options)
    except Refused as refused:
        raise AssertionError(f"refused: {refused}") from None
    objection = checker.whole(after, adapters, full=strict)
    _expect(not objection, f"the checker rejects the result: {objection}")
    if gives is not None:
        operators = " ".join(node.op_type for node in after.graph.node)
        _expect(operators == gives, f"the result has the operators {operators!r}, not {gives!r}")
    if after == before:  # an equal model has equal results, even if no engine can run it
        return after
    judge = evaluate or oracle.evaluate
    sets = [inputs] if inputs is not None else _generated(before, adapters)
    for values in sets:
        expected, actual = _computed(judge, before, values), _computed(judge, after, values)
        difference = oracle.compare(expected, actual, rtol=rtol, atol=atol, ulp=ulp)
        _expect(difference is None, f"the results differ: {difference}")
    return after


def assert_refused(
    model: ModelProto | str,
    to: AnyTarget,
    *,
    why: Why | None = None,
    allow_approximate: bool = False,
    assume: Collection[AssumptionName] = (),
) -> Refused:
    """Asserts a refusal in which every node has the expected reason; returns the refusal."""
    try:
        convert_version(parsed(model), to, allow_approximate=allow_approximate, assume=assume)
    except Refused as refused:
        reasons = {node.why for node in refused.refusals}
        _expect(
            why is None or reasons == {why},
            f"the conversion was refused for other reasons: {refused}",
        )
        return refused
    raise AssertionError(f"the model converts to {to}, but a refusal was expected")


def assert_invalid(model: ModelProto | str, to: AnyTarget, *, match: str) -> InvalidModel:
    """Asserts that the model is found invalid, with a message that contains `match`."""
    try:
        convert_version(parsed(model), to)
    except InvalidModel as invalid:
        _expect(match in str(invalid), f"the model is invalid for another reason: {invalid}")
        return invalid
    except Refused as refused:
        raise AssertionError(f"the model was refused, not found invalid: {refused}") from None
    raise AssertionError(f"the invalid model converts to {to}")


def parsed(model: ModelProto | str) -> ModelProto:
    """Parses ONNX's text format, such as `<ir_version: 8, opset_import: ["" : 13]> g (...) ...`."""
    return parse_model(model) if isinstance(model, str) else model


def _generated(model: ModelProto, adapters: Registry) -> list[Mapping[str, Any]]:
    return [case.values for case in generate.cases(model, 0, generate.FIRST, adapters)]


def _computed(judge: Evaluate, model: ModelProto, values: Mapping[str, Any]) -> list[Any]:
    try:
        return list(judge(model, values))
    except oracle.OracleError as error:
        raise AssertionError(f"no engine can compute the model ({error}); give evaluate=") from None


def _expect(condition: bool, sentence: str) -> None:
    if not condition:
        raise AssertionError(sentence)
