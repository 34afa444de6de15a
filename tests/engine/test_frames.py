# SPDX-License-Identifier: Apache-2.0
"""A node that holds graphs is a frame with names in it, and nothing else."""

from __future__ import annotations

from random import Random

import pytest
from onnx import NodeProto
from opshift.convert.classes.frames import filled, take_apart
from opshift.convert.classes.nested import nested, rename
from opshift.convert.classes.rows import Unproven

from tools.bench import workloads

SEEDS = range(20)


def holder(random: Random) -> NodeProto:
    """A node with graphs three deep, some with doc strings and declared values."""
    nodes = [n for n in workloads.nested(13, 80).graph.node if n.op_type in ("If", "Loop", "Scan")]
    found = random.choice(nodes)
    for one in found.attribute:
        if random.random() < 0.5:
            one.g.doc_string = f"text {random.random()}" * random.choice([1, 20])
        for inner in one.g.node:
            inner.doc_string = random.choice(["", "inside"])
    return NodeProto.FromString(attributes(found))


def attributes(node: NodeProto) -> bytes:
    bare = NodeProto(op_type=node.op_type, attribute=node.attribute)
    return bare.SerializeToString(deterministic=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_frame_with_its_own_names_is_the_node(seed):
    data = attributes(holder(Random(seed)))
    frame, names = take_apart(data)
    assert filled(frame, iter(names)) == data


@pytest.mark.parametrize("seed", SEEDS)
def test_other_names_in_a_frame_are_those_that_a_renaming_writes(seed):
    node = holder(Random(seed))
    new: dict[str, str] = {}

    def other(name: str) -> str:
        return new.setdefault(name, f"{len(new)}" * (1 + len(new) % 90))

    frame, names = take_apart(attributes(node))
    rename(node, other, other)
    assert {name.decode() for name in names} == new.keys()
    wanted = filled(frame, (new[name.decode()].encode() for name in names))
    assert wanted == attributes(node)


def test_nodes_that_differ_in_names_are_of_one_class_and_keep_their_names():
    node = holder(Random(1))
    first = nested((attributes(node), 0, 1, 0))
    rename(node, "new_{}".format, "new_{}".format)
    second = nested((attributes(node), 0, 1, 0))
    assert second.signature == first.signature
    assert second.captures == [b"new_" + name for name in first.captures]
    assert second.names == [b"new_" + name for name in first.names]
    assert second.values == {b"new_" + name for name in first.values}


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_that_end_too_early_are_not_understood(seed):
    data = attributes(holder(Random(seed)))
    with pytest.raises(Unproven):
        take_apart(data[: Random(seed).randrange(len(data) // 2, len(data))] + b"\x2a\x7f")
