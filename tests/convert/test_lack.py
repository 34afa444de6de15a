# SPDX-License-Identifier: Apache-2.0
"""A reason why a runtime cannot run a model names its nodes."""

from __future__ import annotations

import pytest
from opshift.codes.refusals import Why
from opshift.convert.runtime.lack import RuntimeLack


@pytest.mark.parametrize(
    ("node", "count", "shown"),
    [("n", 1, "it fails ('n')"), ("n", 2, "it fails ('n' and 1 more)"), ("", 1, "it fails")],
)
def test_a_lack_names_its_first_node(node, count, shown):
    assert str(RuntimeLack("it fails", "Neg", "", node, count)) == shown


def test_a_lack_is_a_refusal_of_a_conversion_for_the_runtime():
    refused = RuntimeLack("it fails", "Neg", "acme", "n", 2, "double=float").as_refusal(13)
    assert (refused.node, refused.op, refused.domain) == ("n", "Neg", "acme")
    assert (refused.boundary, refused.why) == ((13, 13), Why.TARGET_LACKS)
    assert (refused.detail, refused.types) == ("it fails", "double=float")
