# SPDX-License-Identifier: Apache-2.0
"""Laws for every model and every target; each is a function that fails with a message."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import journeys
import references
from onnx import ModelProto, TensorProto
from opshift import Refused, convert, convert_version, plan
from opshift.author import registry
from opshift.author.example import Example
from opshift.convert.legal import checker
from opshift.convert.request import Request
from opshift.model.arrays import to_array
from opshift.model.rename import rename
from opshift.model.walk import graphs_in, nodes, stated_names
from opshift.verify import generate, oracle, randomness
from opshift.verify.engine_choice import highest_of_runtime
from opshift.verify.oracle.engines import as_written
from opshift.verify.randomness import unlike
from opshift.verify.tolerance import element_type
from refusals import unexpected

Target = Mapping[str, int]


def reached(model: ModelProto, to: Target) -> ModelProto | None:
    """The model at a version, or None if it is refused, which must be for an expected reason."""
    found = outcome(model, to)
    if isinstance(found, Refused):
        assert not unexpected(found), f"refused though it should not be: {found}"
        return None
    return found


def outcome(model: ModelProto, to: Target) -> ModelProto | Refused:
    """Returns the result or the refusal of a conversion, which several laws share."""
    return _shared(bytes_of(model), tuple(sorted(to.items())))


@functools.lru_cache(maxsize=64)
def _shared(model: bytes, to: tuple[tuple[str, int], ...]) -> ModelProto | Refused:
    return converted(ModelProto.FromString(model), dict(to))


def converted(model: ModelProto, to: Target) -> ModelProto | Refused:
    """Converts a model anew; returns the result or the refusal."""
    try:
        return convert_version(model, to)  # type: ignore[no-any-return]
    except Refused as refused:
        return refused


def bytes_of(model: ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)


def same_numbers(before: ModelProto, after: ModelProto) -> str | None:
    """Compares outputs for generated inputs of two sizes, also with other values overridden."""
    random = randomness.drawn(before)
    for number, case in enumerate(generate.cases(before, 0, generate.FIRST, registry.default())):
        values: dict[str, Any] = {**case.values, **(overridden(before) if number else {})}
        try:
            expected, actual = (oracle.evaluate(one, values) for one in (before, after))
        except oracle.OracleError:
            if oracle.doubtful(before, after):  # an old reference fails on what is legal
                return None
            raise
        for info, one, other in zip(before.graph.output, expected, actual, strict=True):
            drawn = info.name in random
            told = unlike(one, other) if drawn else different(one, other, has_halves(before))
            if told:
                return f"{case.label}: {info.name} {told}"
    return None


def runtime_agrees(model: ModelProto, to: Target) -> str:
    """onnxruntime loads the result and gives equal numbers, if it loads and runs the model.

    The answer is "yes", or why it does not run both.
    """
    if any(node.op_type == "BatchNormalization" and len(node.output) > 1 for node in nodes(model)):
        return "training"  # which onnxruntime leaves out below opset 14: the outputs are anything
    after = reached(model, to)
    if after is None:
        return "refused"
    if not all(7 <= opset_of(one) <= highest_of_runtime() for one in (model, after)):
        return "another opset"
    before, random = _loaded(model), randomness.drawn(model)
    later = _loaded(after) if not isinstance(before, str) else before
    if isinstance(later, str):
        assert before is later or "NOT_IMPLEMENTED" in later, later
        return "no kernel" if "NOT_IMPLEMENTED" in later else "not loaded"
    given = overridden(model) if min(model.ir_version, after.ir_version) > 3 else {}
    for number, case in enumerate(generate.cases(model, 0, generate.FIRST, registry.default())):
        values: dict[str, Any] = {**case.values, **(given if number else {})}
        try:
            expected = before.run(None, values)
        except Exception:  # it fails on the model as it came
            return "not run"
        actual = later.run(None, values)
        for info, one, other in zip(model.graph.output, expected, actual, strict=True):
            drawn = info.name in random
            told = unlike(one, other) if drawn else different(one, other, has_halves(model))
            assert not told, f"{case.label}: {info.name} {told}"
    return "yes"


def opset_of(model: ModelProto) -> int:
    return max((opset.version for opset in model.opset_import if not opset.domain), default=0)


def _loaded(model: ModelProto) -> Any:
    """Returns a session of onnxruntime, or the message with which onnxruntime rejects the model."""
    try:
        return as_written(model)
    except Exception as error:  # onnxruntime has no common class of errors
        return str(error)


def has_halves(model: ModelProto) -> bool:
    """Returns whether numbers may be rounded to 16 bits."""
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    casts = (a.i for node in nodes(model) for a in node.attribute if a.name == "to")
    kinds = {value.type.tensor_type.elem_type for value in values}
    return not kinds.union(casts).isdisjoint((TensorProto.FLOAT16, TensorProto.BFLOAT16))


def different(one: Any, other: Any, halves: bool = False) -> str | None:
    floats = element_type(one).startswith("float")
    narrow = floats and (halves or element_type(one) == "float16")
    rtol, atol = (2e-2, 2e-3) if narrow else (1e-4, 1e-5) if floats else (0, 0)
    return oracle.compare([one], [other], rtol=rtol, atol=atol)


def overridden(model: ModelProto) -> dict[str, Any]:
    """Returns other values for float initializers that are also inputs."""
    inputs = {info.name for info in model.graph.input}
    found = {t.name: to_array(t) for t in model.graph.initializer if t.name in inputs}
    return {
        name: (x * 0.5 + 0.25).astype(x.dtype) for name, x in found.items() if x.dtype.kind == "f"
    }


def legal(model: ModelProto) -> None:
    objection = checker.whole(model, registry.default(), full=True)
    assert objection is None, objection


def equal_numbers(model: ModelProto, to: Target) -> None:
    """A result is legal and computes the same as the source."""
    after = reached(model, to)
    if after is not None:
        legal(after)
        difference = same_numbers(model, after)
        assert difference is None, difference


def identity(model: ModelProto, own: Target) -> None:
    """A conversion to the model's own version changes nothing."""
    assert bytes_of(convert_version(model, own)) == bytes_of(model)


def there_and_back(model: ModelProto, own: Target, to: Target) -> None:
    """A conversion there and back computes the same."""
    there = reached(model, to)
    back = reached(there, own) if there is not None else None
    if back is not None:
        difference = same_numbers(model, back)
        assert difference is None, difference


def names_do_not_count(model: ModelProto, to: Target) -> None:
    """Renaming the values of subgraphs changes no operator of the result."""
    after, other = reached(model, to), reached(named_apart(model), to)
    assert (after is None) == (other is None)
    if after is not None and other is not None:
        assert [node.op_type for node in nodes(after)] == [node.op_type for node in nodes(other)]


def named_apart(model: ModelProto) -> ModelProto:
    """Returns the model with other names for all values that subgraphs define."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for number, graph in enumerate(graphs_in(copy.graph)):
        if number:
            own = {*stated_names(graph), *(name for node in graph.node for name in node.output)}
            names = {name: f"{name}.{number}" for name in own - {""}}
            for node in graph.node:
                rename(node, names)
            for one in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
                one.name = names.get(one.name, one.name)
    return copy


def by_way_of(model: ModelProto, between: Target, to: Target) -> None:
    """A conversion through another version computes the same as the direct one."""
    stop, direct = reached(model, between), reached(model, to)
    onward = reached(stop, to) if stop is not None else None
    if onward is not None and direct is not None:
        difference = same_numbers(direct, onward)
        assert difference is None, difference


def any_path(model: ModelProto, to: Target, ir: int, stop: int) -> None:
    """One command succeeds if several commands do, and every path gives the same numbers."""
    case = journeys.Journey("random", 0, Example("random", ""), model, to, ir, stop)
    results = journeys.results(case)
    assert not (told := journeys.refused(case, results)), told
    different = {bytes_of(result): (name, result) for name, result in results.items()}
    for name, result in different.values():
        legal(result)
        told = same_numbers(model, result)
        assert told is None, (name, told)


def deterministic(model: ModelProto, to: Target) -> None:
    """Equal inputs give equal bytes, and the source does not change."""
    before = bytes_of(model)
    first, second = reached(model, to), converted(model, to)
    assert bytes_of(model) == before, "the given model was changed"
    assert (first is None) == isinstance(second, Refused)
    if first is not None and not isinstance(second, Refused):
        assert bytes_of(first) == bytes_of(second), "two runs gave other bytes"


def one_answer(tasks: Sequence[tuple[ModelProto, Request]]) -> None:
    """Earlier conversions in the process change neither the result nor the report."""
    first = [answer(*task) for task in tasks]
    again = [answer(*task) for task in reversed(tasks)]
    assert first == again[::-1]


def answer(model: ModelProto, wanted: Request) -> tuple[bytes, Any]:
    """The bytes and the report of a result, or the text of a refusal."""
    try:
        result = convert(model, wanted)
    except Refused as refused:
        return b"", str(refused)
    return bytes_of(result.model), result.report


def nothing_dangles(model: ModelProto, to: Target) -> None:
    """The result reads only defined values, and has no new unread nodes or constants."""
    try:
        after = convert_version(model, to)
    except Refused:  # a weight that training sets is not a constant, which may refuse a node
        return
    legal(after)
    told = references.dangling(after) - references.dangling(model)
    assert not told, told
    left = references.unread(after) - references.unread(model)
    assert not left, f"left unread: {left}"
    left = references.unread_constants(after) - references.unread_constants(model)
    assert not left, f"left unread: {left}"


def training_counts(model: ModelProto, to: Target) -> None:
    """The result uses the weights that training sets, also after they are rewritten."""
    try:
        both = model, convert_version(model, to)
    except Refused:
        return
    difference = same_numbers(*map(journeys.retrained, both))
    assert difference is None, difference


def converts(model: ModelProto, to: Target) -> bool:
    """Returns whether a conversion succeeds."""
    return not isinstance(outcome(model, to), Refused)


def bindings_survive(model: ModelProto, to: Target) -> None:
    """Training sets the same initializers, and its graphs have the same outputs."""
    after = convert_version(model, to)
    for one, other in zip(model.training_info, after.training_info, strict=True):
        assert one.initialization_binding == other.initialization_binding
        assert one.update_binding == other.update_binding
        for part in ("initialization", "algorithm"):
            outputs = [[o.name for o in getattr(side, part).output] for side in (one, other)]
            assert outputs[0] == outputs[1]


def forecast(model: ModelProto, to: Target) -> None:
    """The plan agrees with the conversion."""
    found, end = plan(model, to), outcome(model, to)
    if isinstance(end, Refused):
        assert not found.possible, f"planned, but {end}"
        assert dict(found.nearest) == end.nearest
    else:
        assert found.possible, f"converted, but the plan said {found.refusals}"
