# SPDX-License-Identifier: Apache-2.0
"""RandomNormal, RandomUniform, their Like forms, Multinomial and Bernoulli."""

from opshift.adapter import Builder, Node, Result, T, adapter, boundary, impossible
from opshift.combinators import cast_around

REASON = "Multinomial needs opset 7, because no older operator samples"
CASES = [("any", "(float[2,3] x) => (int32[2,4] y) { y = {op}<sample_size=4>(x) }")]
MULTINOMIAL_7 = impossible("Multinomial", 7, 6, REASON, cases=CASES)


@adapter("Bernoulli", 15, 14)
def bernoulli_15_14(node: Node, op: Builder) -> Result:
    """Opset 15 added Bernoulli; below opset 15, RandomUniformLike < probability is written."""
    p = node["input"]
    draw = op.RandomUniformLike(p, dtype=T.FLOAT, seed=node.attr("seed"))
    if p.elem_type == T.DOUBLE:
        draw = op.Cast(draw, to=T.DOUBLE)
    elif p.elem_type != T.FLOAT:
        p = op.Cast(p, to=T.FLOAT)
    return op.Cast(draw < p, to=node.attr("dtype") or node["input"].elem_type)


IN_FLOAT = cast_around("float")
RANDOM_22 = boundary(22, "RandomNormal:13e8b9 RandomUniform:2c4bac", cast=IN_FLOAT)
LIKE_22 = boundary(22, "RandomNormalLike:6c456d RandomUniformLike:ba2214", cast=IN_FLOAT)
BERNOULLI_22 = boundary(22, "Bernoulli:c7f17b", cast=IN_FLOAT)
MULTINOMIAL_22 = boundary(22, "Multinomial:6423d8", cast=IN_FLOAT)
