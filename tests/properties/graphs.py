"""Random models: legal at their version by construction, in every form that version has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from onnx import FunctionProto, GraphProto, ModelProto, TensorProto, helper, numpy_helper
from opshift import schemas, versions

FLOAT, HALF, DOUBLE = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE
INT64, INT32, BOOL = TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL
NEWEST = schemas.latest("") or 1
VERSIONS = [v for v in (7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 23, 24) if v < NEWEST]
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare")


@dataclass(frozen=True)
class Value:
    """A value in sight; `exact` where no rounding happened, so that a jump is no surprise."""

    name: str
    elem_type: int
    shape: tuple[int | str, ...]
    exact: bool = True

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.elem_type in (FLOAT, HALF, DOUBLE)


@dataclass
class Scope:
    """A graph that grows; what it makes is in sight of the scopes inside it."""

    draw: Any
    opset: int
    names: Any
    values: list[Value]
    graph: GraphProto
    functions: list[FunctionProto] = field(default_factory=list)
    inputs_too: bool = False
    depth: int = 0

    def fresh(self) -> str:
        return f"v{next(self.names)}"

    def pick(self, *rules: Any) -> Value | None:
        fitting = [v for v in self.values if all(rule(v) for rule in rules)]
        return self.draw(st.sampled_from(fitting)) if fitting else None

    def axis(self, rank: int) -> int:
        """A legal axis; negative ones from 11 on."""
        return self.draw(st.integers(-rank if self.opset >= 11 else 0, rank - 1))

    def const(self, array: Any, dtype: Any = np.int64, *, needed: bool = True) -> str:
        """A constant: a node, an initializer, or where nobody must know it, one fed as an input."""
        name, tensor = self.fresh(), numpy_helper.from_array(np.asarray(array, dtype))
        how = self.draw(st.sampled_from(("node", "initializer", "input")))
        of_floats = tensor.data_type in (FLOAT, HALF, DOUBLE)
        if how == "node" and (self.opset >= 9 or of_floats):  # Constant knew nothing else
            self.graph.node.append(helper.make_node("Constant", [], [name], value=tensor))
            return name
        tensor.name = name
        self.graph.initializer.append(tensor)
        if self.inputs_too and how == "input" and not needed:
            info = helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
            self.graph.input.append(info)
        return name

    def add(self, op: str, inputs: list[str], *results: Value, **attributes: Any) -> None:
        node = helper.make_node(op, inputs, [r.name for r in results], **attributes)
        self.graph.node.append(node)
        self.values += [r for r in results if r.name]

    def like(self, x: Value, **changes: Any) -> Value:
        kept = {"elem_type": x.elem_type, "shape": x.shape, "exact": x.exact, **changes}
        return Value(self.fresh(), **kept)


def float_(v: Value) -> bool:
    return v.is_float


def plain(v: Value) -> bool:
    return v.elem_type == FLOAT


def shaped(v: Value) -> bool:
    return v.rank >= 1


def exact(v: Value) -> bool:
    return v.exact


# ------------------------------------------------------------------ operators


def unary(s: Scope) -> None:
    x = s.pick(float_)
    if x:
        op = s.draw(st.sampled_from(("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Identity")))
        s.add(op, [x.name], s.like(x, exact=x.exact and op not in ("Sigmoid", "Tanh")))


def binary(s: Scope) -> None:
    x = s.pick(float_)
    y = x and s.pick(lambda v: v.elem_type == x.elem_type and v.shape in (x.shape, x.shape[1:], ()))
    if x and y:
        op = s.draw(st.sampled_from(("Add", "Sub", "Mul")))
        s.add(op, [x.name, y.name], s.like(x, exact=False))


def variadic(s: Scope) -> None:
    x = s.pick(float_)
    y = x and s.pick(lambda v: (v.elem_type, v.shape) == (x.elem_type, x.shape))
    if x and y:
        op = s.draw(st.sampled_from(("Max", "Min", "Sum", "Mean")))
        if op in ("Sum", "Mean") or s.opset >= 8:
            s.add(op, [x.name, y.name, x.name], s.like(x, exact=False))


def normalised(s: Scope) -> None:
    x = s.pick(float_, shaped)
    if x:
        op = s.draw(st.sampled_from(("Softmax", "LogSoftmax", "Hardmax")))
        written = {"axis": s.axis(x.rank)} if s.draw(st.booleans()) else {}
        default = 1 if s.opset < 13 else -1
        if (op != "Hardmax" or x.exact) and (written or default < x.rank):
            s.add(op, [x.name], s.like(x, exact=False), **written)


def flattened(s: Scope) -> None:
    x = s.pick(plain, lambda v: v.rank >= 2 and all(isinstance(d, int) for d in v.shape))
    if x:
        axis = s.draw(st.integers(0, x.rank))
        halves = (int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))
        s.add("Flatten", [x.name], s.like(x, shape=halves), axis=axis)


def transposed(s: Scope) -> None:
    x = s.pick(lambda v: v.rank >= 2)
    if x:
        perm = s.draw(st.permutations(range(x.rank)))
        s.add("Transpose", [x.name], s.like(x, shape=tuple(x.shape[p] for p in perm)), perm=perm)


def squeezed(s: Scope) -> None:
    x = s.pick(lambda v: 1 in v.shape)
    if x:
        axis = x.shape.index(1)
        result = s.like(x, shape=x.shape[:axis] + x.shape[axis + 1 :])
        listed(s, "Squeeze", x, [axis], result, since=13)


def unsqueezed(s: Scope) -> None:
    x = s.pick(lambda v: v.rank <= 3)
    if x:
        axis = s.draw(st.integers(0, x.rank))
        result = s.like(x, shape=(*x.shape[:axis], 1, *x.shape[axis:]))
        listed(s, "Unsqueeze", x, [axis], result, since=13)


def reduced(s: Scope) -> None:
    x = s.pick(float_, shaped)
    if x:
        op, axis, keep = s.draw(st.sampled_from(REDUCTIONS)), s.axis(x.rank), s.draw(st.booleans())
        kept, place = list(x.shape), axis % x.rank
        kept[place : place + 1] = [1] if keep else []
        result = s.like(x, shape=tuple(kept), exact=False)
        since = 13 if op == "ReduceSum" else 18
        listed(s, op, x, [axis], result, since=since, keepdims=int(keep))


def listed(
    s: Scope, op: str, x: Value, axes: list[int], result: Value, *, since: int, **rest: Any
) -> None:
    """Axes are an attribute before a version, an input from it on."""
    if s.opset < since:
        s.add(op, [x.name], result, axes=axes, **rest)
    else:
        s.add(op, [x.name, s.const(axes)], result, **rest)


def clipped(s: Scope) -> None:
    x = s.pick(plain)
    if x and s.opset < 11:
        s.add("Clip", [x.name], s.like(x, exact=False), min=-0.5, max=0.75)
    elif x:
        low = s.const(-0.5, np.float32, needed=False) if s.draw(st.booleans()) else ""
        high = s.const(0.75, np.float32, needed=False)
        s.add("Clip", [x.name, low, high], s.like(x, exact=False))


def sliced(s: Scope) -> None:
    x = s.pick(shaped, lambda v: isinstance(v.shape[-1], int) and v.shape[-1] > 1)
    if x:
        axis, end = x.rank - 1, x.shape[-1]
        result = s.like(x, shape=(*x.shape[:-1], end - 1))
        if s.opset < 10:
            s.add("Slice", [x.name], result, starts=[1], ends=[end], axes=[axis])
        else:
            names = [s.const([one]) for one in (1, end, axis)]
            s.add("Slice", [x.name, *names], result)


def padded(s: Scope) -> None:
    x = s.pick(plain, shaped, lambda v: isinstance(v.shape[-1], int))
    if x:
        pads = [0] * (2 * x.rank - 1) + [1]
        result = s.like(x, shape=(*x.shape[:-1], x.shape[-1] + 1))
        if s.opset < 11:
            s.add("Pad", [x.name], result, pads=pads, value=1.0)
        else:
            fill = [s.const(1.0, np.float32, needed=False)] if s.draw(st.booleans()) else []
            s.add("Pad", [x.name, s.const(pads), *fill], result)


def gathered(s: Scope) -> None:
    x = s.pick(shaped, lambda v: isinstance(v.shape[-1], int) and v.shape[-1] > 0)
    if x:
        indices = s.const([0, x.shape[-1] - 1], needed=False)
        s.add("Gather", [x.name, indices], s.like(x, shape=(*x.shape[:-1], 2)), axis=x.rank - 1)


def cast(s: Scope) -> None:
    x = s.pick(exact)
    if x:
        allowed = (FLOAT, DOUBLE, HALF) if x.is_float else (FLOAT, INT64, INT32, DOUBLE)
        to = s.draw(st.sampled_from(allowed))
        s.add("Cast", [x.name], s.like(x, elem_type=to, exact=False), to=to)


def dropped(s: Scope) -> None:
    x = s.pick(float_)
    if x and s.opset >= 12 and s.draw(st.booleans()):
        s.add("Dropout", [x.name, s.const(0.25, np.float32), ""], s.like(x))
    elif x and s.opset < 12:
        s.add("Dropout", [x.name], s.like(x), ratio=0.25)


def best(s: Scope) -> None:
    x = s.pick(plain, shaped, exact, lambda v: isinstance(v.shape[-1], int) and v.shape[-1] > 0)
    if not x:
        return
    if s.draw(st.booleans()):
        result = s.like(x, elem_type=INT64, shape=(*x.shape[:-1], 1))
        s.add("ArgMax", [x.name], result, axis=x.rank - 1)
        return
    values = s.like(x, shape=(*x.shape[:-1], 1))
    where = s.like(values, elem_type=INT64)
    if s.opset < 10:
        s.add("TopK", [x.name], values, where, k=1, axis=x.rank - 1)
    else:
        s.add("TopK", [x.name, s.const([1])], values, where, axis=x.rank - 1)


def split(s: Scope) -> None:
    x = s.pick(plain, shaped, lambda v: v.shape[-1] in (2, 4))
    if x:
        half = x.shape[-1] // 2
        parts = [s.like(x, shape=(*x.shape[:-1], half)) for _ in range(2)]
        axis = x.rank - 1
        if s.opset >= 18 and s.draw(st.booleans()):
            s.add("Split", [x.name], *parts, axis=axis, num_outputs=2)
        elif s.opset >= 13:
            s.add("Split", [x.name, s.const([half, half])], *parts, axis=axis)
        else:
            s.add("Split", [x.name], *parts, axis=axis, split=[half, half])


def batch_normalised(s: Scope) -> None:
    x = s.pick(plain, lambda v: v.rank >= 2 and isinstance(v.shape[1], int))
    if x:
        numbers = [np.linspace(0.5, 1.5, x.shape[1])] * 4
        names = [s.const(n, np.float32, needed=False) for n in numbers]
        s.add("BatchNormalization", [x.name, *names], s.like(x, exact=False), epsilon=1e-3)


def branched(s: Scope) -> None:
    x = s.pick(plain)
    if not x or s.depth > 1:
        return
    branches = [inside(s, x) for _ in range(2)]
    which = s.const(s.draw(st.booleans()), np.bool_, needed=False)
    then_branch, else_branch = branches
    result = s.like(x, exact=False)
    s.add("If", [which], result, then_branch=then_branch, else_branch=else_branch)


def looped(s: Scope) -> None:
    x = s.pick(plain)
    if not x or s.depth > 1:
        return
    state = s.like(x)
    body = inside(s, state)
    counter, go, out = s.fresh(), s.fresh(), s.fresh()
    body.input.append(helper.make_tensor_value_info(counter, INT64, []))
    body.input.append(helper.make_tensor_value_info(go, BOOL, []))
    body.input.append(helper.make_tensor_value_info(state.name, FLOAT, state.shape))
    body.node.append(helper.make_node("Identity", [go], [out]))
    result = body.output[0]
    del body.output[:]
    body.output.extend([helper.make_tensor_value_info(out, BOOL, []), result])
    inputs = [s.const(2, needed=False), s.const(True, np.bool_), x.name]
    s.add("Loop", inputs, s.like(x, exact=False), body=body)


def inside(s: Scope, x: Value) -> GraphProto:
    """A subgraph that may read all that is in sight, and gives something of x's type and shape."""
    inner = Scope(
        s.draw, s.opset, s.names, [*s.values, x], GraphProto(name="inner"), depth=s.depth + 1
    )
    grow(inner, s.draw(st.integers(0, 2)))
    fitting = [v for v in inner.values if (v.elem_type, v.shape) == (FLOAT, x.shape)]
    last = inner.fresh()
    inner.graph.node.append(helper.make_node("Identity", [fitting[-1].name], [last]))
    inner.graph.output.append(helper.make_tensor_value_info(last, FLOAT, x.shape))
    return inner.graph


def called(s: Scope) -> None:
    """A function whose names are those of the graph around it, and mean something else."""
    x = s.pick(plain, shaped)
    if not x or s.opset < 13 or s.depth:
        return
    name = f"Own{len(s.functions)}"
    value = s.values[0].name
    nodes = [helper.make_node("Softmax", [value], ["t"]), helper.make_node("Neg", ["t"], ["u"])]
    entry = [helper.make_opsetid("", s.opset)]
    s.functions.append(helper.make_function("own", name, [value], ["u"], nodes, entry))
    s.add(name, [x.name], s.like(x, exact=False), domain="own")


OPERATORS = (
    *(unary, binary, variadic, normalised, flattened, transposed, squeezed, unsqueezed, reduced),
    *(clipped, sliced, padded, gathered, cast, dropped, best, split, batch_normalised, branched),
    *(looped, called),
)


def grow(s: Scope, count: int) -> None:
    for _ in range(count):
        s.draw(st.sampled_from(OPERATORS))(s)


@st.composite
def models(draw: Any) -> ModelProto:
    """A model at one of VERSIONS with inputs of several types and a dynamic axis."""
    opset = draw(st.sampled_from(VERSIONS))
    graph = GraphProto(name="random")
    scope = Scope(draw, opset, iter(range(10**6)), [], graph, inputs_too=True)
    for _ in range(draw(st.integers(1, 2))):
        shape = draw(st.lists(st.sampled_from((1, 2, 3, 4)), min_size=1, max_size=3))
        first = ["n"] if draw(st.booleans()) else []
        kind = draw(st.sampled_from((FLOAT, FLOAT, FLOAT, HALF, DOUBLE, INT64)))
        scope.values.append(Value(scope.fresh(), kind, (*first, *shape)))
    given = list(scope.values)
    for v in given:
        graph.input.append(helper.make_tensor_value_info(v.name, v.elem_type, v.shape))
    grow(scope, draw(st.integers(1, 6)))
    results = [v for v in scope.values if v not in given][-3:]
    if not results:
        scope.add("Identity", [given[0].name], scope.like(given[0]))
        results = scope.values[-1:]
    for v in results:
        graph.output.append(helper.make_tensor_value_info(v.name, v.elem_type, v.shape))
    return whole(graph, opset, scope.functions)


def whole(graph: GraphProto, opset: int, functions: list[FunctionProto]) -> ModelProto:
    ir = max(versions.ir_for({"": opset}), 8 if functions else 4)
    model = ModelProto(ir_version=ir, graph=graph)
    model.opset_import.append(helper.make_opsetid("", opset))
    if functions:
        model.opset_import.append(helper.make_opsetid("own", 1))
        model.functions.extend(functions)
    return model
