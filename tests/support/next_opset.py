# SPDX-License-Identifier: Apache-2.0
"""An invented next opset, in its own process, because schemas cannot be unregistered."""

from __future__ import annotations

import contextlib
import io

import onnx
from onnx import defs, helper
from opshift import versions
from opshift.versions import Release

NEXT = versions.RELEASES[-1].onnx + 1


def register() -> None:
    """Adds an opset to onnx and opshift, with a new attribute of Relu and a new operator MadeUp."""
    parameter, attribute = defs.OpSchema.FormalParameter, defs.OpSchema.Attribute
    newest = defs.get_schema("Relu")
    added = attribute("tilt", helper.make_attribute("tilt", 0.0))
    for name, attributes in (("Relu", [*newest.attributes.values(), added]), ("MadeUp", [])):
        schema = defs.OpSchema(
            name, "", NEXT, doc="Made up.",
            inputs=[parameter("X", "T")], outputs=[parameter("Y", "T")],
            type_constraints=[("T", sorted(newest.inputs[0].types), "")], attributes=attributes,
        )  # fmt: skip
        defs.register_schema(schema)
    defs.C.set_domain_to_version("", 1, NEXT)
    newest = versions.RELEASES[-1]
    versions.RELEASES = (
        *versions.RELEASES,
        Release("99.0", newest.ir, NEXT, newest.ml, newest.training, newest.preview),
    )
    versions.installed = lambda: versions.RELEASES[-1]


def told(model: onnx.ModelProto, target: int) -> str:
    """Returns the operators of a conversion's result, or its error on one line."""
    import opshift

    try:
        result = opshift.convert_version(model, target)
    except opshift.OpshiftError as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return " ".join(node.op_type for node in result.graph.node)


def main() -> None:
    """Prints one line for each stage from a refusal to a conversion."""
    register()
    from opshift.author import database, registry
    from opshift.opsets import changelog, schemas

    from tools.author import new_opset

    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {NEXT - 1}]>'
        " g (float[2] x) => (float[2] y) { y = Relu(x) }"
    )
    print("unknown:", told(model, NEXT))
    known = changelog.Changelog()
    known.add(database.build(versions.DOMAINS).SerializeToString(), "made up")
    changelog.default = lambda: known
    for asked in (
        schemas.known,
        schemas.latest,
        schemas.schema,
        schemas.history,
        schemas.changed,
        schemas.known_domains,
    ):
        asked.cache_clear()
    print("no verdict:", told(model, NEXT))
    page = io.StringIO()
    with contextlib.redirect_stdout(page):
        new_opset.main(["--version", str(NEXT)])
    print(
        "stubs:",
        *(
            line
            for line in page.getvalue().splitlines()
            if line.startswith(("relu_", "def ", "#   "))
        ),
        sep="|",
    )
    scope: dict[str, object] = {"__name__": "made_up"}
    exec(compile(page.getvalue(), "made_up.py", "exec"), scope)
    for name, value in scope.items():
        if name.endswith(str(NEXT)) or name.endswith(str(NEXT - 1)):
            for part in value if isinstance(value, tuple) else (value,):
                registry.default().add(part)
    print("with the stub:", told(model, NEXT))
    from opshift import testing

    shapes = {"input_shapes": [(2,)], "output_shapes": [(2,)]}
    print(
        "upgrade test:", testing.assert_op_upgrades("MadeUp", NEXT, **shapes).graph.node[0].op_type
    )


if __name__ == "__main__":
    main()
