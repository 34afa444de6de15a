# SPDX-License-Identifier: Apache-2.0
"""Products: MatMul, Gemm, Einsum, Det."""

from __future__ import annotations

from families.making import Family, Making, rows

EQUATIONS = (
    "ij,jk->ik",
    "bij,bjk->bik",
    "ij->ji",
    "ii->i",
    "ii",
    "ij->",
    "i,i->",
    "i,j->ij",
    "...ij,...jk->...ik",
    "ij,kj",
    "bhwc,hkc->bhwk",
    "ijk->kij",
    "ij,ij->i",
    "i,ij,j->",
    "...i->...",
    "...i,...i->...",
)


def matmul(m: Making) -> None:
    elem = m.elem()
    rows_, inner, columns = (m.int(1, 4) for _ in range(3))
    batch = m.shape(0, 2) if m.opset >= 7 or m.flag() else ()
    left = (*m.stretched(batch), rows_, inner)
    right = (*batch, inner, columns)
    if m.one(True, False, False):
        left = (inner,)
    elif m.one(True, False, False):
        right = (inner,)
    m.node([m.data(elem, left), m.data(elem, right)])


def gemm(m: Making) -> None:
    elem = m.elem()
    a, b = (m.int(1, 4), m.int(1, 4)), (0, 0)
    b = (a[1], m.int(1, 4))
    over, under = m.maybe(m.int(0, 1)), m.maybe(m.int(0, 1))
    left, right = (a[::-1] if over else a), (b[::-1] if under else b)
    inputs = [m.data(elem, left), m.data(elem, right)]
    whole, broadcast = (a[0], b[1]), None
    if m.opset >= 7:
        bias = m.one(whole, (b[1],), (1, b[1]), (a[0], 1), (1, 1), (1,), ())
    else:
        broadcast = m.one(None, 0, 1)
        bias = m.one(whole, (b[1],), (1,), ()) if broadcast else whole
    if m.opset < 11 or m.flag():
        inputs.append(m.data(elem, bias))
    whole_numbers = "int" in elem
    scale = [m.maybe(float(m.int(-2, 2)) if whole_numbers else m.number(-2, 2)) for _ in "ab"]
    m.node(
        inputs, transA=over, transB=under, alpha=scale[0], beta=scale[1], broadcast=broadcast
    )  # fmt: skip


def einsum(m: Making) -> None:
    equation = m.one(*EQUATIONS)
    sizes = {letter: m.int(1, 3) for letter in sorted(set(equation) - set(".,->"))}
    elem = m.elem()
    inputs = []
    extra = m.shape(0, 2, zero=False)
    for term in equation.split("->")[0].split(","):
        dots = extra if "..." in term else ()
        inputs.append(m.data(elem, (*dots, *(sizes[x] for x in term.replace(".", "")))))
    if m.flag():
        equation = equation.replace(",", " , ").replace("->", " -> ")
    m.node(inputs, equation=equation)


def det(m: Making) -> None:
    n = m.int(1, 4)
    m.node([m.data(m.elem(), (*m.shape(0, 2), n, n))])


def random_equation(m: Making) -> None:
    """An equation of random letters, some of which are in the output."""
    if m.flag():
        einsum(m)
        return
    elem, letters = m.elem(), "abcd"
    sizes = {letter: m.int(1, 3) for letter in letters}
    terms = ["".join(m.one(*letters) for _ in range(m.int(0, 3))) for _ in range(m.int(1, 3))]
    used = sorted(set("".join(terms)))
    kept = [letter for letter in m.shuffled(used) if m.flag()]
    equation = ",".join(terms) + ("->" + "".join(kept) if m.flag() else "")
    m.node([m.data(elem, [sizes[x] for x in term]) for term in terms], equation=equation)


MATRIX: Family = {
    **rows("MatMul", matmul),
    **rows("Gemm", gemm),
    **rows("Einsum", random_equation),
    **rows("Det", det),
}
