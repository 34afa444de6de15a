# SPDX-License-Identifier: Apache-2.0
"""A graph to which random nodes are added, and the values that they may read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from onnx import FunctionProto, GraphProto, TensorProto, helper, numpy_helper

FLOAT, HALF, DOUBLE = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE
INT64, INT32, BOOL = TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL
INT8, UINT8, STRING = TensorProto.INT8, TensorProto.UINT8, TensorProto.STRING
FLOATS = (FLOAT, HALF, DOUBLE)


@dataclass(frozen=True)
class Value:
    """A value that nodes may read; `exact` if it was not rounded, so that a jump is expected."""

    name: str
    elem_type: int
    shape: tuple[int | str, ...]
    exact: bool = True

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.elem_type in FLOATS

    @property
    def info(self) -> Any:
        return helper.make_tensor_value_info(self.name, self.elem_type, self.shape)


@dataclass
class Scope:
    """A graph; scopes inside it may read the values of its nodes."""

    draw: Any
    opset: int
    operators: tuple[Callable[[Scope], None], ...]
    graph: GraphProto
    values: list[Value] = field(default_factory=list)
    sequences: list[Value] = field(default_factory=list)  # with the type of what they hold
    functions: list[FunctionProto] = field(default_factory=list)
    prefix: str = "v"
    ml: int = 0
    depth: int = 0
    in_function: bool = False
    made: int = 0

    def grow(self, count: int) -> None:
        """Adds a node or a few, as often as `count`; gives up if six operators do not fit."""
        for _ in range(count):
            size = len(self.graph.node)
            for _ in range(6):
                self.one_of(*self.operators)(self)
                if len(self.graph.node) > size:
                    break

    def inner(self, values: list[Value], prefix: str, **changes: Any) -> Scope:
        """Returns a scope inside this one. Two neighbouring scopes use the same names."""
        return Scope(
            self.draw, self.opset, self.operators, GraphProto(name="inner"), values,
            list(self.sequences), prefix=f"{self.prefix}{prefix}", ml=self.ml,
            depth=self.depth + 1, **{"in_function": self.in_function, **changes},
        )  # fmt: skip

    def fresh(self) -> str:
        self.made += 1
        return f"{self.prefix}{self.made - 1}"

    def chance(self) -> bool:
        return self.draw(st.booleans())

    def one_of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def pick(self, *rules: Callable[[Value], bool]) -> Value | None:
        fitting = [v for v in self.values if all(rule(v) for rule in rules)]
        return self.one_of(*fitting) if fitting else None

    def axis(self, rank: int) -> int:
        """A legal axis; negative ones from 11 on."""
        return self.draw(st.integers(-rank if self.opset >= 11 else 0, rank - 1))

    def const(self, array: Any, dtype: Any = np.int64, *, needed: bool = True) -> str:
        """Adds a constant: a node, an initializer, or an input if no node needs the value."""
        name, tensor = self.fresh(), numpy_helper.from_array(np.asarray(array, dtype))
        how = self.one_of("node", "initializer", "input")
        if self.in_function or (
            how == "node" and (self.opset >= 9 or tensor.data_type in FLOATS)
        ):  # below, Constant knew nothing else
            self.graph.node.append(helper.make_node("Constant", [], [name], value=tensor))
            return name
        tensor.name = name
        self.graph.initializer.append(tensor)
        if self.depth == 0 and how == "input" and not needed:
            info = helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
            self.graph.input.append(info)
        return name

    def node(self, op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> None:
        self.graph.node.append(helper.make_node(op, inputs, outputs, **attributes))

    def add(self, op: str, inputs: list[str], *results: Value, **attributes: Any) -> None:
        self.node(op, inputs, [r.name for r in results], **attributes)
        self.values += [r for r in results if r.name]

    def like(self, x: Value, **changes: Any) -> Value:
        kept = {"elem_type": x.elem_type, "shape": x.shape, "exact": x.exact, **changes}
        return Value(self.fresh(), **kept)


# What a value must be.


def float_(v: Value) -> bool:
    return v.is_float


def plain(v: Value) -> bool:
    return v.elem_type == FLOAT


def shaped(v: Value) -> bool:
    return v.rank >= 1


def exact(v: Value) -> bool:
    return v.exact


def known_last(v: Value) -> bool:
    return v.rank >= 1 and isinstance(v.shape[-1], int) and v.shape[-1] > 0


def matrix(v: Value) -> bool:
    return v.rank == 2 and known_last(v)


def known(v: Value) -> bool:
    return all(isinstance(d, int) and d > 0 for d in v.shape)
