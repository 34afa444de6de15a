# SPDX-License-Identifier: Apache-2.0
"""Operators on strings: StringNormalizer, StringConcat, StringSplit and RegexFullMatch."""

from opshift.adapter import (
    Array,
    Builder,
    Node,
    Refusal,
    Result,
    Why,
    adapter,
    fragile,
    impossible,
    np,
)

NEW_OPERATORS = [
    impossible(op, since, since - 1, f"{op} needs opset {since} or later", cases=[("any", case)])
    for op, since, case in (
        ("StringNormalizer", 10, "(string[3] x) => (string[3] y) { y = {op}(x) }"),
        ("StringSplit", 20, "(string[2] x) => (string[2,n] y, int64[2] z) { y, z = {op}(x) }"),
        ("RegexFullMatch", 20, '(string[2] x) => (bool[2] y) { y = {op}<pattern="a.*">(x) }'),
    )
]
REGEX = fragile("RegexFullMatch")


def _texts(node: Node, reason: str) -> list[Array]:
    """Returns the inputs as constants; refuses the node with `reason` if an input is computed."""
    found = [value and value.const_or_none() for value in node.inputs]
    if any(one is None for one in found):
        raise Refusal(Why.NOT_EXPRESSIBLE, reason)
    return [one for one in found if one is not None]


@adapter("StringConcat", 20, 19)
def string_concat_20_19(node: Node, op: Builder) -> Result:
    """Opset 20 added StringConcat; below opset 20, only constants are concatenated."""
    left, right = _texts(node, "StringConcat of computed strings needs opset 20")
    return op.const(np.char.add(left.astype(str), right.astype(str)).astype(object))
