# SPDX-License-Identifier: Apache-2.0
"""Registers schemas of installed packages with onnx, and converts documents to onnx's schemas.

Operators that only documents describe are not registered, because onnx has one registry for the
whole process.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from opshift import plugins
from opshift.protos.library import defs

if TYPE_CHECKING:
    from opshift.opsets.operator_set import Operator
    from opshift.opsets.schema import Attribute, Param

GROUP = "opshift.schemas"


@functools.cache
def register() -> None:
    """Registers the operators of installed packages that onnx lacks."""
    points = plugins.offered(GROUP)
    if not points:
        return
    from opshift.protos import whole

    present = {(s.domain, s.name, s.since_version) for s in defs.get_all_schemas_with_history()}
    for one in (one for point in points for one in point.load()()):
        if (one.domain, one.name, one.since_version) not in present:
            whole.defs.register_schema(one)
            present.add((one.domain, one.name, one.since_version))


def as_onnx(operator: Operator) -> Any:
    """Returns a document's schema as an onnx schema, without inference of types."""
    from opshift.protos import whole

    one = operator.schema
    variables = {p.variable: p.types for p in (*one.inputs, *one.outputs)}
    return whole.defs.OpSchema(
        one.name,
        one.domain,
        one.since,
        operator.documentation,
        inputs=[_parameter(p, one.min_input - i) for i, p in enumerate(one.inputs)],
        outputs=[_parameter(p, one.min_output - i) for i, p in enumerate(one.outputs)],
        type_constraints=[(v, sorted(types), "") for v, types in variables.items() if types != {v}],
        attributes=[_attribute(a) for a in one.attributes.values()],
    )


def _parameter(one: Param, least: int) -> Any:
    from opshift.protos import whole

    kinds = whole.defs.OpSchema.FormalParameterOption
    kind = kinds.Variadic if one.variadic else kinds.Optional if one.optional else kinds.Single
    return whole.defs.OpSchema.FormalParameter(
        one.name, one.variable, param_option=kind, is_homogeneous=one.homogeneous,
        min_arity=max(0, least) if one.variadic else 1,
    )  # fmt: skip


def _attribute(one: Attribute) -> Any:
    from opshift.protos import whole

    kinds: Any = whole.defs.OpSchema.AttrType  # the type stubs do not declare it as an enum
    kind = kinds(one.kind)
    if one.default is None:
        return whole.defs.OpSchema.Attribute(one.name, kind, required=one.required)
    default = whole.helper.make_attribute(one.name, one.default, attr_type=one.kind)
    return whole.defs.OpSchema.Attribute(one.name, default_value=default)
