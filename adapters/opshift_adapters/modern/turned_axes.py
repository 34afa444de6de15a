# SPDX-License-Identifier: Apache-2.0
"""An operator along one axis that stands between two Transposes."""

from typing import Any

from opshift.adapter import Formula, Found, Term

TURNED = (
    "(float[2,3,4] x) => (float[2,3,4] y) { t = Transpose<perm=[2,1,0]>(x) s = {op}(t) y"
    " = Transpose<perm=[2,1,0]>(s) }"
)


def turned_back(found: Found) -> dict[str, Any] | None:
    """The axis that lies at the place of the operator's own, if the axes return to their places."""
    there, back, axis = (found.numbers[name] for name in ("there", "back", "axis"))
    if not there or not back or [there[place] for place in back] != list(range(len(there))):
        return None
    return {"axis": there[axis]}


def of_turned_axes(op: Formula, name: str, input: Term) -> Term:
    """Transpose of the operator of a Transpose."""
    turned = op.Transpose(input, perm=op.attribute("there"))
    made = getattr(op, name)(turned, axis=op.attribute("axis"))
    return op.Transpose(made, perm=op.attribute("back"))
