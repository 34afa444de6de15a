# SPDX-License-Identifier: Apache-2.0
"""MatMul, Gemm and Det."""

import functools
import itertools
from collections.abc import Iterator, Sequence
from functools import partial

from opshift.adapter import (
    KEEP,
    Builder,
    InvalidModel,
    Node,
    Refusal,
    Result,
    Surroundings,
    T,
    Value,
    Why,
    adapter,
    alternative,
    boundary,
    form,
    in_other_words,
    misread,
    np,
)
from opshift.combinators import cast_around

from opshift_adapters._lib.blocks import part, times_vector
from opshift_adapters._lib.exact_integers import multiply_matrices
from opshift_adapters._lib.kinds import FLOATS, as_type, in_double
from opshift_adapters._lib.transposes import Turned, is_fixed, turned

GEMM_6 = boundary(6, "Gemm:ddbc0c")


@adapter("Gemm", 6, 7, ignores={"broadcast": "C of Gemm broadcasts or has the shape of the result"})
def gemm_6_7(node: Node, op: Builder) -> Result:
    """Opset 7 removed `broadcast` of Gemm, because C always broadcasts."""
    return op.same(node, broadcast=None)


@adapter("Gemm", 7, 6)
def gemm_7_6(node: Node, op: Builder) -> Result:
    """Below opset 7, C of Gemm is a scalar, row or matrix; another C is transposed or expanded."""
    c = node["C"]
    rows, columns = _result_dims(node)
    if c.rank < 2:
        return op.same(node, broadcast=1)
    first, second = c.dims
    if first == 1:
        return op.same(node, inputs={"C": op.Squeeze(c, axes=[0])}, broadcast=1)
    if second == 1:
        return _column(node, op, op.Squeeze(c, axes=[1]))
    if _surely(first, rows) and _surely(second, columns):
        return KEEP
    return op.same(node, inputs={"C": op.Expand(c, _result_shape(node, op))})


def _result_dims(node: Node) -> tuple[int | str | None, int | str | None]:
    a, b = node["A"].dims_or_none, node["B"].dims_or_none
    if any(dims is not None and len(dims) != 2 for dims in (a, b)):
        raise InvalidModel(f"Gemm {node.name!r} multiplies values that are not matrices")
    rows = a[bool(node.int("transA"))] if a else None
    return rows, b[not node.int("transB")] if b else None


def _surely(size: int | str | None, wanted: int | str | None) -> bool:
    """Returns whether a size is a number, or the same symbolic dimension as `wanted`."""
    return isinstance(size, int) or (size is not None and size == wanted)


def _result_shape(node: Node, op: Builder) -> Value:
    row, column = int(bool(node.int("transA"))), int(not node.int("transB"))
    rows = part(op, op.Shape(node["A"]), row, row + 1)
    return op.Concat(rows, part(op, op.Shape(node["B"]), column, column + 1), axis=0)


def _column(node: Node, op: Builder, c: Value) -> Value:
    """Writes Gemm with a column C as a transposed Gemm of B and A, in which C is a row."""
    x, y, alpha, beta = node["B"], node["A"], node.float("alpha"), node.float("beta")
    turn_x, turn_y = 1 - node.int("transB"), 1 - node.int("transA")
    z = op.Gemm(x, y, c, alpha=alpha, beta=beta, broadcast=1, transA=turn_x, transB=turn_y)
    return op.Transpose(z, perm=[1, 0])


def _integer_product(node: Node, op: Builder) -> Result:
    """Below opset 9, MatMul and Gemm of integers become products of digits in double."""
    a, b = node["A"], node["B"]
    if node.op == "MatMul":
        return multiply_matrices(op, a, b)
    alpha, beta = node.float("alpha"), node.float("beta")
    if not (alpha.is_integer() and beta.is_integer()):
        raise Refusal(
            Why.NOT_EXPRESSIBLE, "Gemm of integers with fractional alpha or beta needs opset 9"
        )
    a = op.Transpose(a, perm=[1, 0]) if node.int("transA") else a
    b = op.Transpose(b, perm=[1, 0]) if node.int("transB") else b
    return _scaled(op, multiply_matrices(op, a, b), alpha) + _scaled(op, node["C"], beta)


MATRIX_9 = boundary(9, "Gemm:eddd78 MatMul:433a95", cast=_integer_product)


GEMM_11 = boundary(11, "Gemm:113567", directions="up")


@adapter("Gemm", 11, 10)
def gemm_11_10(node: Node, op: Builder) -> Result:
    """Opset 11 made C of Gemm optional; below opset 11, zeros are written."""
    if node.input("C") is not None:
        return KEEP
    zeros = _zero_row(node, op)
    return op.same(node, inputs={"C": op.const(0, like=node["A"]) if zeros is None else zeros})


MATRIX_13 = boundary(13, "Gemm:9773d9 MatMul:2e2c47")

MOST_ZEROS = 1 << 16


@form("Gemm")
def gemm_with_c(node: Node, op: Builder) -> Result:
    """Gemm gets a C of zeros, because onnxruntime 1.4 to 1.12 fuses no Gemm without C."""
    if node.input("C") is not None or not 11 <= op.version <= 17:
        return KEEP
    zeros = _zero_row(node, op) if node["B"].elem_type_or_none == T.FLOAT else None
    return KEEP if zeros is None else op.same(node, inputs={"C": zeros})


def adds_one_number(node: Node) -> bool:
    """Returns whether C of Gemm is a single number."""
    added = node.input("C")
    return added is not None and added.shape_or_none in ((), (1,))


ONE_NUMBER_IS_NOT_ADDED = [
    misread("Gemm", releases, f"Gemm with a single number as C {verb}", source=source)(
        adds_one_number
    )
    for releases, verb, source in (
        ("onnxruntime 0.3..0.4", "does not run", "2026-11-22 0.3, 0.4: C of the shapes [] and [1]"),
        ("opencv 4.5.5, 4.8", "is rejected", "2026-11-25 8 kinds of C and B, opsets 7 to 13"),
    )
]
PRODUCTS = partial(misread, source="2026-11-26 4.1.2..5.0: each attribute at 9, 11 and 13")


@PRODUCTS("Gemm", "opencv 4.1.2, 4.5.5", "Gemm without transB is not supported")
def without_trans_b(node: Node) -> bool:
    return not node.int("transB")


@PRODUCTS("Gemm", "opencv 4.1.2, 4.5.5, 4.8", "alpha of Gemm is ignored")
def with_alpha(node: Node) -> bool:
    return node.float("alpha") != 1


@PRODUCTS("Gemm", "opencv 4.1.2, 4.5.5, 4.8", "beta of Gemm is ignored")
def with_beta(node: Node) -> bool:
    return node.float("beta") != 1


@PRODUCTS("Gemm", "opencv 4.1.2, 4.5.5, 4.8", "Gemm with transA is not supported")
def with_trans_a(node: Node) -> bool:
    return node.int("transA") == 1


@alternative("Gemm", runtime="onnxruntime==0.4")
def plain_gemm(node: Node, op: Builder) -> Result:
    """Gemm keeps transB and a row as C; alpha, beta, transA and another C become separate nodes."""
    c, alpha, beta = node.input("C"), node.float("alpha"), node.float("beta")
    single = c is not None and c.dims_or_none in ((), (1,))
    plain = node.int("transB") and not node.int("transA") and alpha == beta == 1
    if op.version < 7 or node["A"].elem_type_or_none != T.FLOAT or (plain and not single):
        return KEEP
    row, known = _zero_row(node, op), c and c.const_or_none()
    if plain and row is not None and known is not None:
        return op.same(node, inputs={"C": op.const(row.const() + known.reshape(()))})
    if plain and row is not None and op.version >= 8:
        return op.same(node, inputs={"C": op.Expand(node["C"], op.const(row.shape))})
    product = _scaled(op, _product(node, op, row), alpha)
    if c is None or (single and known is not None and not (known * beta).any()):
        return product
    if known is not None and beta != 1:
        return op.Add(product, op.const(known * beta, like=node["A"]))
    return op.Add(product, _scaled(op, c, beta))


def _product(node: Node, op: Builder, row: Value | None) -> Value:
    """Multiplies A by B: a Gemm with zeros as C if transB is set, else MatMul."""
    a = op.Transpose(node["A"], perm=[1, 0]) if node.int("transA") else node["A"]
    if not node.int("transB"):
        return op.MatMul(a, node["B"])
    if row is None:
        return op.MatMul(a, op.Transpose(node["B"], perm=[1, 0]))
    return op.Gemm(a, node["B"], row, transB=1)


def _scaled(op: Builder, x: Value, factor: float) -> Value:
    return x if factor == 1 else op.Mul(x, op.const(factor, like=x))


def _zero_row(node: Node, op: Builder) -> Value | None:
    """Returns a row of zeros for C, or None if the number of columns is unknown or too large."""
    columns, flag = node["B"].dims_or_none, node.attributes.get("transB")
    if columns is None or len(columns) != 2 or (flag is not None and flag.ref_attr_name):
        return None
    count = columns[0 if flag is not None and flag.i else 1]
    known = isinstance(count, int) and 0 < count <= MOST_ZEROS
    return op.const(np.zeros(count), like=node["B"]) if known else None


JOINED = partial(misread, source="2026-11-29 22 releases, 1.2..1.32: 103 forms, 300 random")
NARROW = (T.FLOAT16, T.BFLOAT16)


def _sides(node: Node) -> Iterator[tuple[Turned, Value, Value]]:
    """Yields each input that a Transpose (and Cast) computes, together with the other input."""
    a, b = node["A"], node["B"]
    for value, other in ((a, b), (b, a)):
        if (found := turned(value)) is not None:
            yield found, value, other


def _differ_in_rank(value: Value, other: Value) -> bool:
    ranks = value.rank_or_none, other.rank_or_none
    return None not in ranks and ranks[0] != ranks[1]


def _is_joined(side: tuple[Turned, Value, Value]) -> bool:
    """Returns whether onnxruntime 1.11 and later merge a Transpose into a product."""
    how, value, other = side
    return how.swaps or how.keeps or (how.moves_the_first and not _differ_in_rank(value, other))


@JOINED("MatMul", "onnxruntime 1.8..1.25", "MatMul of doubles after a Transpose does not load")
def multiplies_swapped_doubles(node: Node, around: Surroundings) -> bool:
    return node["A"].elem_type_or_none == T.DOUBLE and any(
        side[0].swaps and not _is_given(side[0], around) for side in _sides(node)
    )


@JOINED("MatMul", "onnxruntime 1.11..1.25", "MatMul of doubles after a Transpose does not load")
def multiplies_moved_doubles(node: Node, around: Surroundings) -> bool:
    return node["A"].elem_type_or_none == T.DOUBLE and any(
        not side[0].swaps and _is_joined(side) and not _is_given(side[0], around)
        for side in _sides(node)
    )


def _is_given(how: Turned, around: Surroundings) -> bool:
    """Returns whether the result of the Transpose is a graph output; then runtimes keep it."""
    return any(output is not None and around.is_output(output) for output in how.transpose.outputs)


@JOINED("MatMul", "onnxruntime 1.8", "MatMul after a Transpose and a Cast does not load")
def multiplies_cast_swapped(node: Node) -> bool:
    return any(how.swaps and how.cast is not None for how, _, _ in _sides(node))


@JOINED(
    "MatMul",
    "onnxruntime 1.23..1.30",
    "MatMul after a Transpose and a Cast does not load if the Cast is an output",
)
def multiplies_an_output(node: Node, around: Surroundings) -> bool:
    joined = (side for side in _sides(node) if side[0].cast is not None and _is_joined(side))
    return any(around.is_output(side[1]) and not _is_given(side[0], around) for side in joined)


@JOINED(
    "MatMul",
    "onnxruntime 1.19..1.32",
    "MatMul with a factor of another rank, after a Transpose of the first axis and a Cast, crashes"
    " the process",
)
def multiplies_cast_batches(node: Node, around: Surroundings) -> bool:
    return node["A"].elem_type_or_none not in NARROW and any(
        how.cast is not None
        and how.moves_the_first
        and _differ_in_rank(value, other)
        and not _is_swapped(other)
        and not _is_given(how, around)
        for how, value, other in _sides(node)
    )


def _is_swapped(value: Value) -> bool:
    """Returns whether the other input also has a Transpose that onnxruntime merges correctly."""
    how = turned(value)
    return how is not None and (how.swaps or how.keeps)


@JOINED(
    "MatMul",
    "onnxruntime 1.23..1.28, 1.30..1.32",
    "MatMul of float16 by a constant of another rank, after a Transpose of the first axis, crashes"
    " the process",
)
def multiplies_batches_of_float16(node: Node, around: Surroundings) -> bool:
    return node["A"].elem_type_or_none == T.FLOAT16 and any(
        how.cast is None
        and how.moves_the_first
        and _differ_in_rank(value, other)
        and is_fixed(other)
        and not _is_given(how, around)
        for how, value, other in _sides(node)
    )


@misread("MatMul MatMulInteger QLinearMatMul", "onnxruntime 0.3..1.3", source="2026-12-01 0.3..1.4")
def multiplies_one_matrix_of_more_axes(node: Node) -> bool | None:
    """{op} by one matrix of more axes loses axes."""
    a, b = (node[name] for name in ("ab" if node.op == "QLinearMatMul" else "AB"))
    if b.rank_or_none in (1, 2) or a.rank_or_none == 1:
        return False
    *batch, _, _ = b.dims
    several = any(isinstance(size, int) and size != 1 for size in batch)
    return a.rank < b.rank and not several and (all(size == 1 for size in batch) or None)


@alternative("MatMul", runtime="onnxruntime==1.24")
def apart_from_a_transpose(node: Node, op: Builder) -> Result:
    """MatMul gets factors of equal rank that onnxruntime does not merge with a Transpose."""
    inputs = {
        name: op.Squeeze(op.Unsqueeze(node[name], axes=[0]), axes=[0])
        for name in ("A", "B")
        if turned(node[name]) is not None
    }
    ranks = [node[name].rank_or_none or 0 for name in ("A", "B")]
    if 2 <= ranks[0] < ranks[1]:
        axes = list(range(ranks[1] - ranks[0]))
        inputs["A"] = op.Unsqueeze(inputs.get("A", node["A"]), axes=axes)
    return op.same(node, inputs=inputs) if inputs else KEEP


WRITTEN_OUT = 4  # the most rows of a matrix; 4 rows need 24 products


@adapter("Det", 11, 10, approximate=True, in_other_words=True)
def det_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, Det of up to 4 rows is written as a sum of products in double."""
    x, kind = node["X"], node["X"].elem_type
    size = x.dims[-1]
    if not isinstance(size, int):
        raise Refusal(Why.NEEDS_SHAPE, f"the number of rows of {x.name!r} is unknown")
    if not 1 <= size <= WRITTEN_OUT:
        raise Refusal(Why.NOT_EXPRESSIBLE, "Det of more than 4 rows is impossible below opset 11")
    if kind == T.DOUBLE:
        op.approximate("Det is written as a sum of products, which rounds differently")
    if size == 1:
        return op.Squeeze(x, axes=[x.rank - 2, x.rank - 1])
    return as_type(op, _sum_of_products(op, in_double(op, x), size), kind)


def _sum_of_products(op: Builder, x: Value, size: int) -> Value:
    """Writes a determinant as the sum of a signed product for each permutation of the columns."""
    orders = list(itertools.permutations(range(size)))
    signs = [1 - 2 * (_inversions(order) % 2) for order in orders]
    elements = op.Reshape(x, op.const([0] * (x.rank - 2) + [size * size]))
    factors = (
        op.Gather(elements, op.const([row * size + order[row] for order in orders]), axis=-1)
        for row in range(size)
    )
    return times_vector(op, functools.reduce(op.Mul, factors), op.const(signs, like=x))


def _inversions(order: Sequence[int]) -> int:
    return sum(a > b for a, b in itertools.combinations(order, 2))


DET_22 = boundary(22, "Det:0fcd0a", cast=cast_around("float"))


@in_other_words("Gemm")
def product_and_sum(node: Node, op: Builder) -> Result:
    """Gemm of floats is written as alpha * MatMul(A, B) + beta * C."""
    a, b, c = node["A"], node["B"], node.input("C")
    alpha, beta = node.float("alpha"), node.float("beta")
    if a.elem_type not in FLOATS:
        return KEEP
    transposed = op.Transpose(a, perm=[1, 0]) if node.int("transA") else a
    right = op.Transpose(b, perm=[1, 0]) if node.int("transB") else b
    product = op.MatMul(transposed, right)
    if alpha != 1:
        product = product * op.const(alpha, like=a)
    added = c if c is None or beta == 1 else c * op.const(beta, like=a)
    return product if added is None else product + added
