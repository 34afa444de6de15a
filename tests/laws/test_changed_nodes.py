# SPDX-License-Identifier: Apache-2.0
"""Law: after one change to a valid model, a conversion ends with a result or a documented error.

The answer is a model, `Refused`, `InvalidModel` or `BadTarget`, within some seconds of CPU time.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import node_changes
import onnx
import pytest
from newest_onnx import IS_OLDER
from onnx import ModelProto
from opshift import BadTarget, InvalidModel, Refused
from opshift.convert import api
from opshift.model.walk import nodes
from opshift.opsets import schemas

from tools.fuzz import seeds

MODELS = int(os.environ.get("OPSHIFT_CHANGES", "15"))
BUDGET = 10  # conversions of each model
SLOW = 20.0  # seconds of CPU time of one conversion


@pytest.fixture(scope="module")
def pool() -> list[bytes]:
    return seeds.pool(["frozen", "adapters"])


def fault(model: ModelProto, domain: str, to: int) -> str:
    """Returns the fault in the end of a conversion; empty if there is none."""
    begun = time.process_time()
    try:
        api.convert_version(model, {domain: to})
    except (Refused, InvalidModel, BadTarget) as error:
        if not str(error):
            return f"{type(error).__name__} without a sentence"
    except Exception as error:  # any other error is a finding
        return f"{type(error).__name__}: {error}"
    seconds = time.process_time() - begun
    return f"{seconds:.0f} s" if seconds > SLOW else ""


def targets(model: ModelProto) -> Iterator[tuple[str, int]]:
    """Returns targets: for each domain one version up, one down, the newest, and an early one."""
    for entry in model.opset_import:
        if last := schemas.latest(entry.domain):
            near = {max(entry.version - 1, 1), min(entry.version + 1, last)}
            far = {last, 1 if entry.domain else 7}
            yield from ((entry.domain, to) for to in sorted((near | far) - {entry.version}))


def test_a_sample_of_changed_examples_ends_in_an_answer(pool: list[bytes]) -> None:
    tried, found = 0, []
    for at in random.Random(1).sample(range(len(pool)), min(MODELS, len(pool))):
        changed = node_changes.variants(ModelProto.FromString(pool[at]))
        tasks = [(words, one, *to) for words, one in changed for to in targets(one)]
        for words, model, domain, to in random.Random(f"1 {at}").sample(
            tasks, min(BUDGET, len(tasks))
        ):
            tried += 1
            if told := fault(model, domain, to):
                found.append(f"{words}, to {domain or 'ai.onnx'} {to}: {told}")
    assert tried > MODELS * BUDGET // 2
    assert found == []


def test_each_part_is_changed_in_turn() -> None:
    text = '<ir_version: 7, opset_import: ["" : 13]> g (float[2,3] x) => (float[2,3] y) <int64 a = {1}> { z = CumSum(x, a) y = Softmax<axis = 1>(z) }'
    made = dict(node_changes.variants(onnx.parser.parse_model(text)))
    assert made["Softmax without axis"].graph.node[1].attribute == []
    assert made["Softmax axis = 9"].graph.node[1].attribute[0].i == 9
    assert made["CumSum without input 1"].graph.node[0].input == ["x", ""]
    assert made["CumSum without its last input"].graph.node[0].input == ["x"]
    assert list(made["a of shape (2,)"].graph.initializer[0].dims) == [2]
    declared = made["x declared [3,2]"].graph
    assert [d.dim_value for d in declared.input[0].type.tensor_type.shape.dim] == [3, 2]
    assert not declared.output[0].type.tensor_type.HasField("shape")
    assert not made["x declared without a shape"].graph.input[0].type.tensor_type.HasField("shape")
    assert made["a beginning with 3"].graph.initializer[0].raw_data[0] == 3
    assert not [words for words, model in made.items() if fault(model, "", 9)]


def test_another_error_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def trip(model: ModelProto, target: object) -> ModelProto:
        raise KeyError("trip")

    monkeypatch.setattr(api, "convert_version", trip)
    assert fault(ModelProto(), "", 9) == "KeyError: 'trip'"


def test_no_operator_that_changes_is_without_a_model(pool: list[bytes]) -> None:
    if IS_OLDER:
        pytest.skip("the installed onnx cannot read all examples")
    models = map(ModelProto.FromString, pool)
    present = {(schemas.normal(n.domain), n.op_type) for model in models for n in nodes(model)}
    changing = {
        (domain, op)
        for domain in ("", "ai.onnx.ml")
        for op in schemas.operators(domain)
        if len(schemas.history(domain, op)) > 1
    }
    assert changing - present == set()
