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
    for schema in (schema for point in points for schema in point.load()()):
        if (schema.domain, schema.name, schema.since_version) not in present:
            whole.defs.register_schema(schema)
            present.add((schema.domain, schema.name, schema.since_version))


def as_onnx(operator: Operator) -> Any:
    """Returns a document's schema as an onnx schema, without inference of types."""
    from opshift.protos import whole

    schema = operator.schema
    return whole.defs.OpSchema(
        schema.name,
        schema.domain,
        schema.since,
        operator.documentation,
        inputs=[_parameter(p, schema.min_input - i) for i, p in enumerate(schema.inputs)],
        outputs=[_parameter(p, schema.min_output - i) for i, p in enumerate(schema.outputs)],
        type_constraints=[
            (variable, sorted(types), "")
            for variable, types in schema.types_by_variable.items()
            if types != {variable}
        ],
        attributes=[_attribute(a) for a in schema.attributes.values()],
    )


def _parameter(param: Param, least: int) -> Any:
    from opshift.protos import whole

    kinds = whole.defs.OpSchema.FormalParameterOption
    kind = kinds.Variadic if param.variadic else kinds.Optional if param.optional else kinds.Single
    return whole.defs.OpSchema.FormalParameter(
        param.name, param.variable, param_option=kind, is_homogeneous=param.homogeneous,
        min_arity=max(0, least) if param.variadic else 1,
    )  # fmt: skip


def _attribute(attribute: Attribute) -> Any:
    from opshift.protos import whole

    kinds: Any = whole.defs.OpSchema.AttrType  # the type stubs do not declare it as an enum
    kind = kinds(attribute.kind)
    if attribute.default is None:
        return whole.defs.OpSchema.Attribute(attribute.name, kind, required=attribute.required)
    default = whole.helper.make_attribute(
        attribute.name, attribute.default, attr_type=attribute.kind
    )
    return whole.defs.OpSchema.Attribute(attribute.name, default_value=default)
