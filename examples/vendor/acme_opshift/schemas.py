# SPDX-License-Identifier: Apache-2.0
"""The operators of com.acme at each of their versions."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import helper
from onnx.defs import OpSchema

DOMAIN = "com.acme"


def schemas() -> Iterator[OpSchema]:
    """FastConv said `relu` in version 1 and says `activation` from version 2 on."""
    yield _fast_conv(1, "relu", 0)
    yield _fast_conv(2, "activation", "none")


def _fast_conv(since: int, attribute: str, default: int | str) -> OpSchema:
    value = helper.make_attribute(attribute, default)
    return OpSchema(
        "FastConv",
        DOMAIN,
        since,
        inputs=[OpSchema.FormalParameter("X", "T"), OpSchema.FormalParameter("W", "T")],
        outputs=[OpSchema.FormalParameter("Y", "T")],
        type_constraints=[("T", ["tensor(float)", "tensor(float16)"], "")],
        attributes=[OpSchema.Attribute(attribute, value)],
    )
