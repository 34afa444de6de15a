# SPDX-License-Identifier: Apache-2.0
"""Nodes that block a conversion for one reason share a line."""

from __future__ import annotations

from opshift import Why
from opshift.errors import SHOWN, RefusedNode, blocking_nodes
from opshift.terms import Caller, called_by
from opshift.text import plain


def nodes(count, detail):
    return [RefusedNode(f"n{i}", "Reshape", "", (5, 4), Why.NEEDS_CONSTANT, detail.format(i))
            for i in range(count)]  # fmt: skip


def test_nodes_that_differ_only_in_names_share_a_line():
    found = nodes(3, "'s{}' must be constant") + nodes(1, "the rank of 'x{}' is unknown")
    lines = plain(blocking_nodes(found, "  ")).splitlines()
    assert len(lines) == 2
    assert "'n0'" in lines[0]
    assert "and 2 similar nodes" in lines[0]
    assert "similar" not in lines[1]


def test_verbose_shows_each_node():
    kinds = [f"{'x' * kind} is missing" for kind in range(1, SHOWN + 3)]
    found = [node for detail in kinds for node in nodes(2, detail)]
    whole = plain(blocking_nodes(found, "  "), more=True)
    assert all(str(one) in whole for one in found)
    assert "... and 4 more: `refusals` lists all" in plain(blocking_nodes(found, "  "))
    with called_by(Caller.COMMAND):
        assert "... and 4 more: -v shows all" in plain(blocking_nodes(found, "  "))
