# SPDX-License-Identifier: Apache-2.0
"""If and Loop: types and shapes of the inputs and outputs of branches and bodies."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from opshift.adapter import (
    KEEP,
    Builder,
    GraphProto,
    Node,
    Refusal,
    Result,
    T,
    Value,
    ValueInfoProto,
    Why,
    adapter,
    alternative,
    boundary,
    form,
    misread,
    np,
)

Dims = tuple[int | str | None, ...]
BRANCHES = ("then_branch", "else_branch")
GRAPHS = {"If": BRANCHES, "Loop": ("body",), "Scan": ("body",)}

CONTROL_25 = boundary(25, "If:f501b7 Loop:741d86")
CONTROL_24 = boundary(24, "If:7be5c3 Loop:d95531")
CONTROL_23 = boundary(23, "If:d10c5b Loop:83040b")
CONTROL_21 = boundary(21, "If:70151d Loop:8b1504")
CONTROL_19 = boundary(19, "If:74e247 Loop:a2e96d")


def through_float(node: Node, op: Builder) -> Result:
    """Below opset 16, If, Loop and Scan have no bfloat16; inputs and outputs are cast to float."""
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.elem_type_or_none is None:
            raise Refusal(
                Why.TYPE_NOT_AVAILABLE,
                f"before opset 16, {node.op} cannot pass an optional or a sequence of bfloat16:"
                f" value {value.name!r}",
            )
    graphs = GRAPHS[node.op]
    named = {name: node.attr(name) for name in node.attributes if name not in graphs}
    named |= {name: _around(op, node.graph(name)) for name in graphs}
    given = [_wide(op, value) for value in node.inputs]
    found = op.emit(node.op, *given, outputs=node.n_outputs, **named)
    return tuple(
        op.Cast(value, to=T.BFLOAT16) if old and old.elem_type == T.BFLOAT16 else value
        for value, old in zip(found, node.outputs, strict=False)
    )


def _around(op: Builder, graph: GraphProto) -> GraphProto:
    """Returns a subgraph whose inputs and outputs are float instead of bfloat16."""
    narrow = [info.type.tensor_type.elem_type == T.BFLOAT16 for info in graph.input]

    def write(b: Builder, *inputs: Value) -> tuple[Value, ...]:
        pairs = zip(inputs, narrow, strict=True)
        inside = [b.Cast(value, to=T.BFLOAT16) if small else value for value, small in pairs]
        return tuple(_wide(b, value) or value for value in b.inline(graph, *inside))

    return op.graph(write, *(_floated(info) for info in graph.input))


def _wide(op: Builder, value: Value | None) -> Value | None:
    if value is None or value.elem_type_or_none != T.BFLOAT16:
        return value
    return op.Cast(value, to=T.FLOAT)


def _floated(info: ValueInfoProto) -> tuple[int, Sequence[Any] | None]:
    kind, dims = _declared(info)
    if not kind:
        raise Refusal(Why.NEEDS_TYPE, f"the element type of {info.name!r} is unknown")
    return T.FLOAT if kind == T.BFLOAT16 else kind, dims


def _declared(info: ValueInfoProto) -> tuple[int, Sequence[Any] | None]:
    """Returns the element type of a graph input (0 if not declared) and its dimensions."""
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return tensor.elem_type, None
    dims = tensor.shape.dim
    return tensor.elem_type, [d.dim_value if d.HasField("dim_value") else d.dim_param for d in dims]


CONTROL_16 = boundary(16, "If:6bc99b Loop:70553c", cast=through_float)
IF_13 = boundary(13, "If:7afcd9")


def grown_as_scanned(node: Node, op: Builder) -> Result:
    """Below opset 13, Loop cannot carry a sequence; the appended tensors become a scan output."""
    results, body = node.results("body")[1:], node.graph("body")
    trips, condition, *states = node.inputs
    growing = {i: v for i, v in enumerate(states) if v and v.elem_type_or_none is None}
    names = []
    for i, state in growing.items():
        name, made = body.input[2 + i].name, state.producer
        names.append(_appended(results[i], name).name)
        if made is None or made.op != "SequenceEmpty" or [*reads(body)].count(name) != 1:
            raise Refusal(Why.TYPE_NOT_AVAILABLE, TENSORS_ONLY)
    appending = {results[i].name for i in growing}
    kept = [node for node in body.node if not appending & set(node.output)]
    del body.node[:]
    body.node.extend(kept)
    for i in sorted(growing, reverse=True):
        del body.input[2 + i], body.output[1 + i]
    for name in names:
        body.output.add(name=name)
    others = [v for i, v in enumerate(states) if i not in growing]
    collecting = op.graph(
        lambda b, *inputs: b.inline(body, *inputs), *_counters(body), *(v for v in others if v)
    )
    found = list(op.Loop(trips, condition, *others, body=collecting, outputs=len(body.output) - 1))
    stacks = [found.pop() for _ in names]
    for i in growing:
        found.insert(i, op.SplitToSequence(stacks.pop(), axis=0, keepdims=0))
    return tuple(found)


TENSORS_ONLY = "before opset 13, Loop can carry only tensors, not sequences"


def _counters(body: GraphProto) -> tuple[tuple[int, Sequence[int]], tuple[int, Sequence[int]]]:
    """Returns types and shapes of iteration number and condition of a body: scalars or vectors."""
    number, keep = ([1] * len(_declared(info)[1] or ()) for info in body.input[:2])
    return (T.INT64, number), (T.BOOL, keep)


def _appended(result: Value, sequence: str) -> Value:
    """Returns the tensor that a body appends to a sequence; refuses a tensor of unknown shape."""
    grown = result.producer
    if grown is not None and grown.op == "SequenceInsert" and grown.input("position") is None:
        tensor = grown["tensor"]
        if grown["input_sequence"].name == sequence and tensor.shape_or_none is not None:
            return tensor
    raise Refusal(Why.TYPE_NOT_AVAILABLE, TENSORS_ONLY)


LOOP_13 = boundary(13, "Loop:6dbee5", cast=grown_as_scanned)
CONTROL_11 = boundary(11, "If:e6e4f5 Loop:6105ef", directions="up")


@adapter("If", 11, 10)
def if_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, branches of If need equal shapes; a Loop of 0 or 1 trip replaces a branch."""
    pairs = zip(node.results("then_branch"), node.results("else_branch"), strict=True)
    if all(_alike(a.claimed_dims_or_none, b.claimed_dims_or_none) for a, b in pairs):
        return KEEP
    condition = node["cond"]
    kinds = [value.elem_type for value in node.results("then_branch")]
    ranks = [
        one.rank_or_none if one.rank_or_none == other.rank_or_none else None
        for one, other in zip(node.results("then_branch"), node.results("else_branch"), strict=True)
    ]
    values = tuple(
        op.const(np.zeros((0,) * (rank or 1)), kind)
        for kind, rank in zip(kinds, ranks, strict=True)
    )
    kept = list(zip(kinds, ranks, strict=True))
    for name, trips in (("then_branch", condition), ("else_branch", ~condition)):
        values = _once(op, node.graph(name), op.Cast(trips, to=T.INT64), values, kept)
    return values


def _alike(one: Dims | None, other: Dims | None) -> bool:
    """Returns whether two shapes are known to be equal; equal symbolic dimensions count."""
    return one is not None and one == other and None not in one


def _once(
    op: Builder,
    branch: GraphProto,
    trips: Value,
    old: tuple[Value, ...],
    kept: Sequence[tuple[int, int | None]],
) -> tuple[Value, ...]:
    """Writes a Loop that returns the outputs of the branch if `trips` is 1, else the old values."""
    # The body declares a rank that is always the same, because onnxruntime 0.4 needs the rank.
    body = op.graph(
        lambda b, i, keep, *_: (b.Identity(keep), *b.inline(branch)),
        (T.INT64, ()),
        (T.BOOL, ()),
        *((kind, [None] * rank if rank else None) for kind, rank in kept),
    )
    return op.Loop(trips, op.const(True, T.BOOL), *old, body=body, outputs=len(old))


@form("Loop")
def with_condition(node: Node, op: Builder) -> Result:
    """A Loop without `cond` crashes onnxruntime 1.2 to 1.10, so `cond` becomes true."""
    changed = _declared_graphs(node, op, "body")
    if node.input("cond") is None:
        changed["inputs"] = {"cond": op.const(True, T.BOOL)}
    return op.same(node, outputs=node.n_outputs, **changed) if changed else KEEP


@form("If")
def with_declared_results(node: Node, op: Builder) -> Result:
    """Declares the output types of branches of If, which onnxruntime 0.4 needs up to opset 10."""
    changed = _declared_graphs(node, op, *BRANCHES)
    return op.same(node, outputs=node.n_outputs, **changed) if changed else KEEP


def _declared_graphs(node: Node, op: Builder, *names: str) -> dict[str, Any]:
    """Returns the graphs of a node with declared output types, or {} if all types were declared."""
    if op.version > 10:
        return {}
    graphs, changed = {name: node.graph(name) for name in names}, False
    for name, graph in graphs.items():
        before = [one.SerializeToString() for one in graph.output]
        declare_types(graph.output, known_of(node.results(name)))
        changed = changed or before != [one.SerializeToString() for one in graph.output]
    return graphs if changed else {}


# Operators that onnxruntime never folds when it loads a model.
UNFOLDED = "Bernoulli If Loop Multinomial RandomNormalLike RandomUniformLike Scan"


@misread("Loop", "onnxruntime 0.4", source="2026-11-22 0.4: bodies of Loop")
def reads_its_number(node: Node) -> bool:
    """The iteration number in the body of a Loop has the shape [1] instead of []."""
    body = node.attr("body")
    return body.input[0].name in reads(body, "Reshape")


@misread("If Loop Scan", "onnxruntime 0.4", source="2026-11-23 0.4: models of a corpus")
def passes_unsized_values(node: Node) -> bool:
    """{op} does not run if an input or output of a subgraph lacks a shape or a named size."""
    return any(has_unsized_ends(node.attr(name)) for name in GRAPHS[node.op])


@misread("Loop", "onnxruntime 1.2..1.10", source="2026-11-22 six releases, 1.2..1.11, and 8 models")
def has_no_condition(node: Node) -> bool:
    """{op} without a condition crashes the process."""
    return node.input("cond") is None


@alternative("Loop", runtime="onnxruntime==0.4")
def as_a_body_of_known_shapes(node: Node, op: Builder) -> Result:
    """Loop gets a body of known ranks and declared shapes, because onnxruntime 0.4 needs them."""
    # A carried value whose rank may change becomes its elements as a vector, and its shape.
    old, (trips, condition, *states) = node.graph("body"), node.inputs
    results = node.results("body")
    ranks = [
        before.rank_or_none if before and before.rank_or_none == after.rank_or_none else None
        for before, after in zip(states, results[1:], strict=False)
    ]
    declare_types(old.output, known_of(results))
    kinds = [
        (_declared(info)[0] or state.elem_type_or_none) if state else None
        for info, state in zip(old.input[2:], states, strict=True)
    ]
    if not all(kinds):
        return KEEP  # pragma: no cover: only operators of unknown domains leave a state untyped

    def write(b: Builder, number: Value, keep: Value, *carried: Value) -> tuple[Value, ...]:
        parts = iter(carried)
        inside = [_unpacked(b, parts, rank) for rank in ranks]
        trip = b.Reshape(number, b.const(np.array(_counters(old)[0][1]), T.INT64))
        going, *found = b.inline(old, trip, keep, *inside)
        return (going, *_packed(b, found, ranks), *found[len(ranks) :])

    params: list[tuple[int, Sequence[Any] | None]] = [(T.INT64, ()), _counters(old)[1]]
    for kind, rank in zip(kinds, ranks, strict=True):
        params.append((kind or 0, [None] * (1 if rank is None else rank)))
        params += [(T.INT64, [None])] if rank is None else []
    body = op.graph(write, *params)
    if not name_sizes((*body.input, *body.output)):
        return KEEP
    packed = _packed(op, states, ranks)
    made = iter(op.Loop(trips, condition, *packed, body=body, outputs=len(body.output) - 1))
    return (*(_unpacked(op, made, rank) for rank in ranks), *made)


@misread("If Scan", "onnxruntime 0.4..1.2", source="2026-11-29 0.4..1.7: 320 forms, bodies of Scan")
def gives_constants(node: Node) -> bool:
    """{op} returns wrong numbers if its subgraph computes a result from constants."""
    return any(any(fixed_results(node, name)) for name in GRAPHS[node.op])


def _taken(node: Node) -> str:
    """Returns the name of the branch that always runs, or ""."""
    value = node["cond"].const_or_none()
    return "" if value is None else BRANCHES[not value.any()]


@misread(
    "If",
    "onnxruntime 0.4..1.16",
    "an If does not run if the branch that it always takes declares another shape of its result",
    source="2026-11-29 11 releases, 0.4..1.17: scatter_reduce of torch",
)
def may_declare_another_shape(node: Node) -> bool | None:
    """Returns None if inference does not confirm a shape that this branch declares."""
    name = _taken(node)
    pairs = zip(node.attr(name).output, node.results(name), strict=True) if name else ()
    stated = [(_declared(info)[1], value.dims_or_none) for info, value in pairs]
    is_confirmed = all(
        sizes is None
        or (
            dims is not None
            and [*sizes] == [size and dim for size, dim in zip_longest(sizes, dims)]
        )
        for sizes, dims in stated
    )
    return False if is_confirmed else None


@alternative("If", runtime="onnxruntime==0.4")
def with_results_computed_late(node: Node, op: Builder) -> Result:
    """If becomes the branch that it always takes; other branches get ranks and late constants."""
    condition, graphs = node["cond"], dict[str, Any]()
    graphs |= {name: node.graph(name) for name in BRANCHES}
    if taken := _taken(node):
        for info in graphs[taken].output:
            info.ClearField("type")  # the declared shape may be wrong
        return op.inline(graphs[taken])
    for name, branch in graphs.items():
        fixed = fixed_results(node, name)
        declare_types(branch.output, known_of(node.results(name)))
        if any(fixed):
            holds = condition if name == "then_branch" else ~condition
            branch = op.graph(_shaped_by(holds, branch, fixed))
        name_sizes(branch.output)
        graphs[name] = branch
    result: Result = op.same(node, outputs=node.n_outputs, **graphs)
    return result


def _shaped_by(
    holds: Value, branch: GraphProto, fixed: Sequence[bool]
) -> Callable[[Builder], tuple[Value, ...]]:
    """Returns a function that writes a branch whose constant outputs depend on the condition."""

    def write(op: Builder) -> tuple[Value, ...]:
        found = zip(op.inline(branch), fixed, strict=True)
        return tuple(
            op.Reshape(value, op.Shape(value) * op.Cast(holds, to=T.INT64)) if late else value
            for value, late in found
        )

    return write


def fixed_results(node: Node, name: str) -> list[bool]:
    """Returns, for each output of a subgraph, whether it is computed only from constants."""
    graph = node.graph(name)
    fixed = {tensor.name for tensor in graph.initializer}
    moving = {info.name for info in graph.input}

    def is_fixed(value: str, *, sized: bool = False) -> bool:
        if value in fixed or value in moving:
            return value in fixed
        outside = node.around(value)
        return is_constant(outside) or (sized and outside.shape_or_none is not None)

    for proto in graph.node:
        given, sized = [value for value in proto.input if value], proto.op_type in ("Shape", "Size")
        folds = proto.op_type == "Constant" or (given and proto.op_type not in UNFOLDED.split())
        folds = folds and all(is_fixed(value, sized=sized) for value in given)
        (fixed if folds else moving).update(proto.output)
    return [is_fixed(info.name) for info in graph.output]


def is_constant(value: Value) -> bool:
    """Returns whether a value is computed only from constants and static shapes."""
    waiting, seen = [value], set[str]()
    while waiting:
        one = waiting.pop()
        if one.name in seen or one.const_or_none() is not None:
            continue
        producer = one.producer
        if producer is None or not producer.inputs or producer.op in UNFOLDED.split():
            return False
        seen.add(one.name)
        waiting += [given for given in producer.inputs if given is not None]
    return True


def declare_types(
    infos: Iterable[ValueInfoProto], known: Iterable[tuple[int | None, int | None]]
) -> None:
    """Declares known element types and ranks of values that have no declaration."""
    for info, (kind, rank) in zip(infos, known, strict=True):
        tensor = info.type.tensor_type
        if not tensor.elem_type and kind:
            tensor.elem_type = kind  # onnxruntime 0.4 to 1.2 crash if only the shape is declared
        if tensor.elem_type and not tensor.HasField("shape") and rank is not None:
            tensor.shape.SetInParent()
            for _ in range(rank):
                tensor.shape.dim.add()


def name_sizes(infos: Iterable[ValueInfoProto]) -> bool:
    """Gives unknown sizes a name; returns whether all types and ranks are declared."""
    complete = True
    for info in infos:
        tensor = info.type.tensor_type
        complete = complete and bool(tensor.elem_type) and tensor.HasField("shape")
        for i, dim in enumerate(tensor.shape.dim):
            if not dim.HasField("dim_value") and not dim.dim_param:
                dim.dim_param = f"{info.name}_{i}"
    return complete


def has_unsized_ends(graph: GraphProto) -> bool:
    """Returns whether an input or output lacks a shape, or a size has neither number nor name."""
    tensors = [info.type.tensor_type for info in (*graph.input, *graph.output)]
    return not all(
        tensor.HasField("shape")
        and all(dim.HasField("dim_value") or dim.dim_param for dim in tensor.shape.dim)
        for tensor in tensors
    )


def reads(graph: GraphProto, beside: str = "") -> Iterator[str]:
    """Yields the names of graph outputs and node inputs, except the first input of one operator."""
    yield from (one.name for one in graph.output)
    for node in graph.node:
        yield from node.input[node.op_type == beside :]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from reads(attribute.g, beside)


def known_of(values: Iterable[Value | None]) -> list[tuple[int | None, int | None]]:
    """Returns the element type and the rank of each value, None if unknown."""
    return [
        (value.elem_type_or_none, value.rank_or_none) if value is not None else (None, None)
        for value in values
    ]


def _packed(
    op: Builder, values: Sequence[Value | None], ranks: Sequence[int | None]
) -> Iterator[Value]:
    """Yields each value of known rank, and two values (elements and shape) for any other value."""
    for value, rank in zip(values, ranks, strict=False):
        assert value is not None
        if rank is None:
            yield op.Reshape(value, op.const([-1]))
            yield op.Shape(value)
        else:
            yield value


def _unpacked(op: Builder, parts: Iterator[Value], rank: int | None) -> Value:
    """Returns the next value; if its rank is unknown, joins its elements and its shape again."""
    value = next(parts)
    return value if rank is not None else op.Reshape(value, next(parts), allowzero=1)


@adapter("Loop", 11, 10)
def loop_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, a Loop must carry at least one value; an unused zero is added."""
    if len(node.inputs) > 2:
        return KEEP
    old = node.graph("body")

    def write(b: Builder, i: Value, keep: Value, idle: Value) -> tuple[Value, ...]:
        going, *scans = b.inline(old, i, keep)
        return (going, b.Identity(idle), *scans)

    body = op.graph(write, *_counters(old), (T.INT64, ()))
    loop = op.Loop(
        node.input("M"), node.input("cond"), op.const(0), body=body, outputs=node.n_outputs + 1
    )
    return loop[1:]
