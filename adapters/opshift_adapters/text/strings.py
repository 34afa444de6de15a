# SPDX-License-Identifier: Apache-2.0
"""The operators on strings."""

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

STRING_NORMALIZER_10 = impossible(
    "StringNormalizer", 10, 9, "string processing needs opset 10",
    cases=[("any", '(string[3] x) => (string[3] y) { y = {op}<case_change_action="UPPER">(x) }')],
)  # fmt: skip


def _texts(node: Node, reason: str) -> list[Array]:
    """All inputs as constants; refuses the node with this reason if one is not constant."""
    found = [value and value.const_or_none() for value in node.inputs]
    if any(one is None for one in found):
        raise Refusal(Why.NOT_EXPRESSIBLE, reason)
    return [one for one in found if one is not None]


@adapter("StringConcat", 20, 19)
def string_concat_20_19(node: Node, op: Builder) -> Result:
    """Opset 20 added StringConcat; below it, only constants are joined."""
    left, right = _texts(node, "string concatenation has no operator before opset 20")
    return op.const(np.char.add(left.astype(str), right.astype(str)).astype(object))


STRING_SPLIT_20 = impossible(
    "StringSplit", 20, 19, "string splitting has no operator before opset 20",
    cases=[("any", "(string[2] x) => (string[2,n] y, int64[2] z) { y, z = {op}(x) }")],
)  # fmt: skip
REGEX = fragile("RegexFullMatch")
REGEX_20 = impossible(
    "RegexFullMatch", 20, 19, "regular expressions have no operator before opset 20",
    cases=[("any", '(string[2] x) => (bool[2] y) { y = {op}<pattern="a.*">(x) }')],
)  # fmt: skip
