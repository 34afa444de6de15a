# SPDX-License-Identifier: Apache-2.0
"""A class of nodes, which is one object for all of its nodes: comparing it costs nothing."""

from __future__ import annotations


class NodeClass:
    """What its nodes compute, and the facets of what they read and give."""

    __slots__ = ("inputs", "outputs", "row", "signature")

    def __init__(self, row: tuple[int, ...], inputs: int, outputs: tuple[int, ...]) -> None:
        self.row = row  # the signature, the facets of the inputs, and those declared of the outputs
        self.signature = row[0]
        self.inputs = row[1 : 1 + inputs]
        self.outputs = outputs
