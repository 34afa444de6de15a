# SPDX-License-Identifier: Apache-2.0
"""An imported version that is too large for a library gives an error of opshift."""

from __future__ import annotations

import pytest
from onnx import parser
from opshift import InvalidModel, convert_version
from opshift.protos import library


@pytest.mark.parametrize("version", [-(2**63), -1, 2**31, 2**63 - 1])
def test_the_version_of_another_domain_is_kept_or_named(version: int) -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 15, "com.acme": 1]>
        g (float[2] x, int64[1] t) => (int64[2] y) { y = com.acme.Like(x, t) }
        <domain: "com.acme", opset_import: ["": 15]> Like (x, t) => (y) { y = CastLike(x, t) }"""
    )
    model.opset_import[1].version = version
    try:
        result = convert_version(model, 14)
    except InvalidModel as error:
        assert "version" in str(error)
    else:
        assert model.opset_import[1] in list(result.opset_import)


def test_the_nearest_version_is_shown_to_the_library() -> None:
    assert library.held_versions({"": 13, "a": -5, "b": 2**40}) == {"": 13, "a": 0, "b": 2**31 - 1}
