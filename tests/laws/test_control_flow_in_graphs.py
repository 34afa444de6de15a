# SPDX-License-Identifier: Apache-2.0
"""Control flow inside of subgraphs never makes an adapter fail."""

import os

import pytest
from onnx import AttributeProto, GraphProto, ModelProto, helper
from opshift import AdapterBug, OpshiftError, convert_version, testing
from opshift.author.verdicts import LEAVE

from examples import Case, cases, model_of, too_new

HOLDERS = ("FlexAttention", "SequenceMap", "Loop", "Scan", "If")
SAMPLES = 12 if "OPSHIFT_PROPERTIES" in os.environ else 6  # of each operator


def in_a_condition(graph: GraphProto) -> None:
    """Moves the nodes of a graph into both branches of an If."""
    made = {name for node in graph.node for name in node.output}
    results = [value for value in graph.output if value.name in made]
    if not results or any(not result.HasField("type") for result in results):
        return
    branches = []
    for side in ("then", "else"):
        branch = GraphProto(name=f"{graph.name}_{side}")
        branch.node.extend(graph.node)
        branch.output.extend(results)
        branches.append(branch)
    del graph.node[:]
    condition = helper.make_tensor("", 9, [], [True])
    graph.node.append(helper.make_node("Constant", [], ["chosen_here"], value=condition))
    names = [result.name for result in results]
    then, other = branches
    graph.node.append(
        helper.make_node("If", ["chosen_here"], names, then_branch=then, else_branch=other)
    )


def with_conditions(model: ModelProto) -> bool:
    """Moves the nodes of each subgraph into an If; returns whether there is a subgraph."""
    found = False
    for node in model.graph.node:
        for attribute in node.attribute if node.op_type in HOLDERS else ():
            if attribute.type == AttributeProto.GRAPH:
                in_a_condition(attribute.g)
                found = True
    return found


def samples() -> list[Case]:
    found = []
    for op in HOLDERS:
        own = [case for case in cases() if op in case.adapter.ops and not too_new(case)]
        found += own[:: max(1, len(own) // SAMPLES)]
    return found


@pytest.mark.parametrize("case", samples(), ids=lambda case: case.id)
def test_control_flow_in_a_graph_is_no_fault_of_an_adapter(case: Case) -> None:
    model = model_of(case)
    if not with_conditions(model):
        pytest.skip("no node of the example holds a graph")
    leaves = (case.adapter.start, case.adapter.to) == LEAVE
    options = {**case.example.options, **({"domains": ["ai.onnx"]} if leaves else {})}
    try:
        convert_version(model, testing.example_target(case.adapter, case.example), **options)
    except OpshiftError as error:
        assert not isinstance(error, AdapterBug), error
