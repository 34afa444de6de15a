"""Makes up inputs from a model's signature and from what its graph does with them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorShapeProto, TypeProto

from opshift.verify import hints
from opshift.verify.cases import Case
from opshift.verify.hints import Hint
from opshift.verify.oracle import inputs as plain
from opshift.verify.oracle.values import dtype_of, is_float

Sizes = dict[str, int]
Array = np.ndarray[Any, np.dtype[Any]]

FIRST: tuple[tuple[int, ...], ...] = ((2, 3, 4), (3, 4, 5))
"""Two sizes for every dynamic axis, different ones for different axes."""
SECOND: tuple[tuple[int, ...], ...] = ((2,), (3,), (1,))
"""For models whose dynamic axes must agree, though they are named differently."""

VALUES: Mapping[str, Callable[[Array], Any]] = {
    "positive": lambda x: np.abs(x) + 0.25,
    "nonzero": lambda x: np.where(x < 0, x - 1, x + 1),
    "unit": lambda x: np.tanh(x) * 0.9,
    "share": lambda x: 0.5 + np.tanh(x) * 0.4,
    "above one": lambda x: np.abs(x) + 1.25,
    "low": lambda x: np.full_like(x, -1),
    "high": lambda x: np.full_like(x, 1),
    "zero": np.zeros_like,
    "false": np.zeros_like,
    "one": np.ones_like,
    "true": np.ones_like,
    "two": lambda x: np.full_like(x, 2),
    "three": lambda x: np.full_like(x, 3),
    "far": lambda x: np.full_like(x, 2**30),
    "places": lambda x: np.arange(x.size).reshape(x.shape),
    "shape": lambda x: np.array([-1] + [1] * (x.size - 1))[: x.size].reshape(x.shape),
    "zero to two": lambda x: np.abs(np.round(x)) % 3,
}


def cases(model: ModelProto, seed: int, ladder: Sequence[Sequence[int]]) -> Iterator[Case]:
    """One set of inputs for each way to size the dynamic axes."""
    fed = {tensor.name for tensor in model.graph.initializer}
    fed |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    wanted = hints.hints(model)
    for number, choice in enumerate(ladder):
        sizes: Sizes = {}
        rng = np.random.default_rng([seed, number])
        made = {}
        for info in model.graph.input:
            if info.name not in fed:
                kinds = wanted.get(info.name, ())
                made[info.name] = _value(model, info.type, kinds, rng, sizes, choice)
        shown = "".join(f", {name or '?'}={size}" for name, size in sizes.items())
        yield Case(f"generated, seed {seed}.{number}{shown}", made)


def _value(
    model: ModelProto, declared: TypeProto, wanted: Sequence[Hint],
    rng: np.random.Generator, sizes: Sizes, choice: Sequence[int],
) -> Any:  # fmt: skip
    if declared.WhichOneof("value") != "tensor_type":
        return plain.make_value(declared, rng, sizes)
    shape = _shape(declared.tensor_type.shape, sizes, choice)
    if not declared.tensor_type.HasField("shape"):
        shape = (2, 3)
    elem_type = declared.tensor_type.elem_type
    dtype = dtype_of(elem_type)
    if wanted and wanted[0].kind == "index":
        bound = min(_bound(model, hint, sizes, choice) for hint in wanted if hint.kind == "index")
        return rng.integers(0, bound, shape).astype(dtype)
    count = int(np.prod(shape, dtype=int))
    if not wanted or dtype.kind == "O":
        return plain.make_elements(elem_type, count, rng).reshape(shape)
    numbers = rng.normal(0, 2, shape)
    found = np.asarray(VALUES[wanted[0].kind](numbers))
    return (found if is_float(dtype) else np.rint(found)).astype(dtype)


def _shape(shape: TensorShapeProto, sizes: Sizes, choice: Sequence[int]) -> tuple[int, ...]:
    found = []
    for dim in shape.dim:
        if dim.HasField("dim_value"):
            found.append(dim.dim_value)
        else:
            place = len(sizes) % len(choice)
            found.append(sizes.setdefault(dim.dim_param, choice[place]))
    return tuple(found)


def _bound(model: ModelProto, hint: Hint, sizes: Sizes, choice: Sequence[int]) -> int:
    """How far an index may go; 1 where nothing is known."""
    shape = _known(model, hint.data, sizes, choice)
    if not shape:
        return 1
    if hint.axis is None:
        return max(min(shape), 1)
    return max(shape[hint.axis], 1) if -len(shape) <= hint.axis < len(shape) else 1


def _known(model: ModelProto, name: str, sizes: Sizes, choice: Sequence[int]) -> tuple[int, ...]:
    graph = model.graph
    for tensor in graph.initializer:
        if tensor.name == name:
            return tuple(tensor.dims)
    for info in itertools.chain(graph.input, graph.value_info, graph.output):
        if info.name == name and info.type.tensor_type.HasField("shape"):
            shape = info.type.tensor_type.shape
            given = any(d.HasField("dim_value") or d.dim_param in sizes for d in shape.dim)
            return _shape(shape, dict(sizes), (1,)) if given or not shape.dim else (1,)
    return ()
