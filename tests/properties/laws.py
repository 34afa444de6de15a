"""What holds for every model and every target, each as one function that fails with a sentence."""

from __future__ import annotations

from typing import Any

from onnx import ModelProto
from opshift import Refused, check, convert_version, plan
from opshift.verify import generate, oracle


def reached(model: ModelProto, to: int) -> ModelProto | None:
    """The model at a version, or None where the answer is no."""
    try:
        return convert_version(model, to)  # type: ignore[no-any-return]
    except Refused:
        return None


def bytes_of(model: ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)


def same_numbers(before: ModelProto, after: ModelProto) -> str | None:
    """How the outputs differ on made-up inputs of two sizes."""
    for case in generate.cases(before, 0, generate.FIRST):
        values: dict[str, Any] = dict(case.values)
        expected, actual = (oracle.evaluate(one, values) for one in (before, after))
        for one, other in zip(expected, actual, strict=True):
            narrow = one.dtype.itemsize == 2
            rtol, atol = (2e-2, 2e-3) if narrow else (1e-4, 1e-5)
            told = oracle.compare([one], [other], rtol=rtol, atol=atol)
            if told:
                return f"{case.label}: {told}"
    return None


def legal(model: ModelProto) -> None:
    objection = check.whole(model, full=True)
    assert objection is None, objection


def equal_numbers(model: ModelProto, to: int) -> None:
    """A conversion is legal and computes the same."""
    after = reached(model, to)
    if after is not None:
        legal(after)
        told = same_numbers(model, after)
        assert told is None, told


def identity(model: ModelProto, own: int) -> None:
    """A conversion to the version it has changes nothing."""
    assert bytes_of(convert_version(model, own)) == bytes_of(model)


def there_and_back(model: ModelProto, own: int, to: int) -> None:
    """The way back leads to the same numbers."""
    there = reached(model, to)
    back = reached(there, own) if there is not None else None
    if back is not None:
        told = same_numbers(model, back)
        assert told is None, told


def by_way_of(model: ModelProto, between: int, to: int) -> None:
    """A stop on the way makes no difference."""
    stop, direct = reached(model, between), reached(model, to)
    onward = reached(stop, to) if stop is not None else None
    if onward is not None and direct is not None:
        told = same_numbers(direct, onward)
        assert told is None, told


def deterministic(model: ModelProto, to: int) -> None:
    """The same input gives the same bytes, and is left alone."""
    before = bytes_of(model)
    first, second = reached(model, to), reached(model, to)
    assert bytes_of(model) == before, "the given model was changed"
    assert (first is None) == (second is None)
    if first is not None and second is not None:
        assert bytes_of(first) == bytes_of(second), "two runs gave other bytes"


def forecast(model: ModelProto, to: int) -> None:
    """The plan says what happens."""
    found = plan(model, to)
    try:
        convert_version(model, to)
    except Refused as refused:
        assert not found.possible, f"planned, but {refused}"
        assert dict(found.nearest) == refused.nearest
        return
    assert found.possible, f"converted, but the plan said {found.refusals}"
