# SPDX-License-Identifier: Apache-2.0
"""Draws a random use of an operator: its attributes, inputs and nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from onnx import NodeProto, TypeProto, helper
from opshift.opsets import schemas
from opshift.verify.oracle.inputs import make_elements
from opshift.verify.oracle.values import is_float

ML = "ai.onnx.ml"
FLOATS = ("float", "double", "float16")
INTS = ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
# Near these whole numbers neighbours are one and the same float, or double.
BIG = {"int64": 2**62, "uint64": 2**63, "int32": 2**30, "uint32": 2**31}
SPECIAL = (0.0, -0.0, np.inf, -np.inf, 1e30, -1e30, 0.5, -0.5)


@dataclass(frozen=True)
class Given:
    """An input from outside of the operator; `fixed` if real models store it as a constant."""

    name: str
    value: Any
    fixed: bool
    declared: TypeProto | None = None


@dataclass
class Making:
    """Draws one operator at one version, and collects its nodes and inputs."""

    draw: Any
    op: str
    opset: int
    domain: str = ""
    given: list[Given] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.draw(st.integers(0, 2**16)))

    # -------------------------------------------------------------- draws

    def one(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def flag(self) -> bool:
        return bool(self.draw(st.booleans()))

    def int(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def number(self, low: float, high: float) -> float:
        """A float32 in a range, with few digits."""
        return self.int(round(low * 8), round(high * 8)) / 8

    def shuffled(self, items: Sequence[Any]) -> list[Any]:
        return list(self.draw(st.permutations(items)))

    def axis(self, rank: int, negative: int = 11) -> int:
        """A legal axis; negative ones only from the version that allows them."""
        assume(rank > 0)
        return self.int(-rank if self.opset >= negative else 0, rank - 1)

    def axes(self, rank: int, least: int = 0) -> list[int]:
        """Different axes in any order, each written from either end."""
        chosen = self.shuffled(range(rank))[: self.int(min(least, rank), rank)]
        if self.opset < 11:
            return [int(a) for a in chosen]
        return [a - rank if self.flag() else a for a in chosen]

    def shape(self, least: int = 0, most: int = 4, *, zero: bool = True) -> tuple[int, ...]:
        """A small shape, sometimes with an axis of length zero."""
        rank = self.int(least, most)
        if rank == 4 == most and self.one(False, False, True):
            rank = 5
        sizes = [self.one(1, 2, 3, 4) if rank < 5 else self.one(1, 2) for _ in range(rank)]
        if zero and sizes and self.one(*[False] * 7, True):
            sizes[self.int(0, len(sizes) - 1)] = 0
        return tuple(sizes)

    def stretched(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to another."""
        kept = shape[self.int(0, len(shape)) :]
        return tuple(1 if self.flag() else n for n in kept)

    def elem(self, place: int = 0, among: Sequence[str] = (), op: str = "") -> str:
        """An element type that the schema allows at an input, by its name; float half the time."""
        schema = schemas.schema(self.domain, op or self.op, self.opset)
        param = schema.input_at(place) or schema.output_at(place)
        allowed = [t[7:-1] for t in sorted(param.types) if t.startswith("tensor(")]
        allowed = [t for t in allowed if not among or t in among]
        usual = ["float"] * len(allowed) if "float" in allowed else []
        return str(self.one(*usual, *allowed))

    # -------------------------------------------------------------- values

    def array(self, elem: str, shape: Sequence[int], kind: str = "any") -> Any:
        """Elements of a type: any, positive, nonzero, unit or special (infinite, or big integers)."""
        number, count = schemas.element_number(elem), int(np.prod(shape, dtype=int))
        x = make_elements(number, count, self.rng)
        if kind != "any" and x.dtype.kind not in "Ob":
            x = self._bent(x, kind)
        return x.reshape(tuple(shape))

    def _bent(self, x: Any, kind: str) -> Any:
        match kind:
            case "positive":
                y = np.abs(x.astype(np.float64)) + (0.25 if is_float(x.dtype) else 1)
            case "nonzero":
                y = x.astype(np.float64)
                y = np.where(y < 0, y - 1, y + 1)
            case "unit":
                y = np.tanh(x.astype(np.float64)) * 0.9
            case "special":
                if x.dtype.name in BIG:
                    return (np.abs(x) + np.array(BIG[x.dtype.name], x.dtype)).astype(x.dtype)
                if not is_float(x.dtype) or x.dtype.itemsize < 2:
                    return x
                places = self.rng.integers(0, 3, x.shape) == 0
                y = np.where(places, self.rng.choice(SPECIAL, x.shape), x.astype(np.float64))
                if x.dtype == np.float16 or x.dtype == ml_dtypes.bfloat16:
                    y = np.clip(y, -60000, 60000) if not np.isinf(y).any() else y
        with np.errstate(all="ignore"):
            return y.astype(x.dtype)

    def feed(self, value: Any, *, fixed: bool = False, declared: TypeProto | None = None) -> str:
        """A value from outside, under a name."""
        if not isinstance(value, (list, dict, type(None))):
            value = np.asarray(value)
        name = f"x{len(self.given)}"
        self.given.append(Given(name, value, fixed, declared))
        return name

    def data(self, elem: str, shape: Sequence[int], kind: str = "any") -> str:
        return self.feed(self.array(elem, shape, kind))

    def moved(self, elem: str, shape: Sequence[int]) -> str:
        """Elements that are only moved, so that any value is legal."""
        return self.data(elem, shape, self.one("any", "special"))

    def ints(self, values: Any, dtype: Any = np.int64) -> str:
        """Integers that real models store as constants: axes, shapes, lengths."""
        return self.feed(np.asarray(values, dtype), fixed=True)

    # -------------------------------------------------------------- wiring

    def node(
        self, inputs: Sequence[str] = (), outputs: int | Sequence[bool] = 1,
        op: str = "", domain: str | None = None, **attributes: Any,
    ) -> list[str]:  # fmt: skip
        """Adds the operator with inputs and outputs; attributes of None are omitted."""
        wanted = [True] * outputs if isinstance(outputs, int) else list(outputs)
        names = []
        for want in wanted:
            names.append(f"y{self.count}" if want else "")
            self.count += 1
        while names and not names[-1]:
            names.pop()
        inputs = list(inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        written = {k: v for k, v in attributes.items() if v is not None}
        where = self.domain if domain is None else domain
        made = helper.make_node(op or self.op, inputs, names, domain=where)
        made.attribute.extend(helper.make_attribute(k, v) for k, v in sorted(written.items()))
        self.nodes.append(made)
        self.unused = [n for n in self.unused if n not in inputs] + [n for n in names if n]
        return names

    def maybe(self, value: Any) -> Any:
        """Returns the value, or None for an omitted attribute."""
        return value if self.flag() else None


Recipe = Callable[[Making], None]
Family = dict[tuple[str, str], Recipe]


def rows(ops: str, recipe: Recipe, domain: str = "") -> Family:
    """The operators that one recipe draws."""
    return {(domain, op): recipe for op in ops.split()}
