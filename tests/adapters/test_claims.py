# SPDX-License-Identifier: Apache-2.0
"""An operator that is claimed to keep its meaning computes the same at both opsets."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import official_nodes
import pytest
from onnx import ModelProto
from opshift import Refused, convert_version, testing
from opshift.author import registry
from opshift.author.example import Example
from opshift.author.verdicts import Adapter, Unchanged, boundary
from opshift.opsets import schemas
from opshift.verify import oracle

from tools.conformance.node_tests import NodeTest, official

TREE = (
    "nodes_treeids=[0,0,0],nodes_nodeids=[0,1,2],nodes_featureids=[1,0,0],nodes_values=[0.5,0.0,0.0],"
    'nodes_modes=["BRANCH_LEQ","LEAF","LEAF"],nodes_truenodeids=[1,0,0],nodes_falsenodeids=[2,0,0]'
)
# For operators that no official test has, or that every test leaves for others on the way there.
MODELS = {
    "Bernoulli": "(float[2,3] p) => (double[2,3] y) { y = Bernoulli<dtype=11,seed=1.5>(p) }",
    "GlobalLpPool": "(float[1,2,3,4] x) => (float[1,2,1,1] y) { y = GlobalLpPool<p=3>(x) }",
    "MaxRoiPool": "(float[1,2,6,6] x) => (float[1,2,2,3] y) <float[1,5] r = {0, 0.0, 1.0, 4.0, 5.0}> { y = MaxRoiPool<pooled_shape=[2,3]>(x, r) }",
    "Multinomial": "(float[2,3] x) => (int64[2,5] y) { y = Multinomial<dtype=7,sample_size=5,seed=1.5>(x) }",
    "Optional": "(float[2,3] x) => (optional(float[2,3]) y) { y = Optional(x) }",
    "PRelu": "(float[2,3] x, float[3] s) => (float[2,3] y) { y = PRelu(x, s) }",
    "RandomNormal RandomUniform": "() => (float[2,3] y) { y = {op}<shape=[2,3],seed=1.5>() }",
    "RandomNormalLike RandomUniformLike": "(int32[2,3] x) => (double[2,3] y) { y = {op}<dtype=11,seed=1.5>(x) }",
    "ReduceL1 ReduceL2 ReduceLogSum ReduceSumSquare": "(float[2,3,4] x) => (float[2,1,4] y) { y = {op}<axes=[1]>(x) }",
    "TreeEnsembleClassifier": "(float[4,2] x) => (int64[4] l, float[4,2] z) { l, z = ai.onnx.ml.{op}<classlabels_int64s=[7,8],"
    + TREE + ",class_treeids=[0,0],class_nodeids=[1,2],class_ids=[0,1],class_weights=[1.5,2.5]>(x) }",
    "TreeEnsembleRegressor": "(float[4,2] x) => (float[4,1] y) { y = ai.onnx.ml.{op}<n_targets=1,"
    + TREE + ",target_treeids=[0,0],target_nodeids=[1,2],target_ids=[0,0],target_weights=[1.5,2.5]>(x) }",
    "Unsqueeze": "(float[2,3] x) => (float[2,1,3] y) { y = Unsqueeze<axes=[1]>(x) }",
}  # fmt: skip
PROOFS = int(os.environ.get("OPSHIFT_PROOFS", "1"))  # official tests of each claim
OWN = {op: text.replace("{op}", op) for ops, text in MODELS.items() for op in ops.split()}
UNPROVEN = {
    "Scatter 11->10": "It is deprecated at 11, and nobody says what it computes there.",
    "TreeEnsembleClassifier 5->4": "It is deprecated at 5, and nobody says what it computes there.",
    "TreeEnsembleRegressor 5->4": "It is deprecated at 5, and nobody says what it computes there.",
    "Upsample 10->9": "It is deprecated at 10, and nobody says what it computes there.",
}


@dataclass(frozen=True)
class Claim:
    """One operator at one boundary at which a claim says that it is unchanged."""

    op: str
    adapter: Adapter

    def __str__(self) -> str:
        return f"{self.op} {self.adapter.start}->{self.adapter.to}"


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, its inputs, and its expected outputs if they are published."""

    name: str
    model: ModelProto
    inputs: dict[str, Any]
    expected: list[Any] | None = None
    rtol: float = 0.0
    atol: float = 0.0

    def difference(self, computed: list[Any]) -> str | None:
        expected = computed if self.expected is None else self.expected
        return oracle.compare(expected, computed, rtol=self.rtol, atol=self.atol)


CLAIMS = [
    Claim(op, adapter)
    for (_, op, _, _), adapter in registry.default()
    if isinstance(adapter.verdict, Unchanged) and adapter.package == "opshift_adapters"
]


def too_new(claim: Claim) -> bool:
    newest = schemas.latest(claim.adapter.domain) or 0
    return max(claim.adapter.start, claim.adapter.to) > newest


OLDER = any(map(too_new, CLAIMS))


def operators(model: ModelProto) -> set[tuple[str, str]]:
    return {(schemas.normal(node.domain), node.op_type) for node in model.graph.node}


def plainness(test: NodeTest) -> tuple[bool, int]:
    """Returns a sort key: large arrays last, and before them those of few dimensions."""
    arrays = [np.asarray(value) for value in test.data[0] if isinstance(value, np.ndarray)]
    large = sum(array.size for array in arrays) > 4096
    return large, -max((array.ndim for array in arrays), default=0)


@cache
def official_tests() -> dict[tuple[str, str], list[NodeTest]]:
    """Maps each operator to the official tests whose models contain it."""
    official_nodes.collected()
    found: dict[tuple[str, str], list[NodeTest]] = {}
    for test in sorted(official([]), key=plainness):
        for operator in operators(ModelProto.FromString(test.model)):
            found.setdefault(operator, []).append(test)
    return found


@cache
def subject(test: NodeTest) -> Subject | None:
    """Returns an official test, or None if the evaluator does not compute its published outputs."""
    model = ModelProto.FromString(test.model)
    inputs = {i.name: v for i, v in zip(model.graph.input, test.data[0], strict=False)}
    one = Subject(test.name, model, inputs, list(test.data[1]), test.rtol, test.atol)
    try:
        return one if one.difference(oracle.evaluate(model, inputs)) is None else None
    except oracle.OracleError:
        return None


def official_subjects(claim: Claim) -> Iterator[Subject]:
    """Yields the official tests of the operator of a claim that the evaluator can judge."""
    for test in official_tests().get((claim.adapter.domain, claim.op), []):
        if (one := subject(test)) is not None:
            yield one


def own_subjects(claim: Claim) -> list[Subject]:
    if claim.op not in OWN:
        return []
    model = testing.example_model(claim.adapter, Example("own", OWN[claim.op]))
    return [Subject("own", model, oracle.make_inputs(model))]


@dataclass(frozen=True)
class Side:
    """A model at one version, and its results, computed at the first use."""

    model: ModelProto
    inputs: dict[str, Any]

    @cached_property
    def operators(self) -> set[tuple[str, str]]:
        return operators(self.model)

    @cached_property
    def computed(self) -> list[Any]:
        return oracle.evaluate(self.model, self.inputs)


@cache
def start_of(one: Subject, domain: str, version: int) -> Side | None:
    """Converts a subject to the version at which a claim starts; returns None after a refusal."""
    try:
        return Side(convert_version(one.model, {domain: version}), one.inputs)
    except Refused:
        return None


def proves(claim: Claim, one: Subject) -> bool:
    """Returns whether both versions contain the operator and compute the expected outputs."""
    domain, start, to = claim.adapter.domain, claim.adapter.start, claim.adapter.to
    before = start_of(one, domain, start)
    if before is None or (domain, claim.op) not in before.operators:
        return False
    try:
        after = Side(convert_version(before.model, {domain: to}), one.inputs)
        if (domain, claim.op) not in after.operators:
            return False
        computed = [side.computed for side in (before, after)]
    except (Refused, oracle.OracleError):  # it cannot be had there, or nobody judges it there
        return False
    told = oracle.compare(*computed) or one.difference(computed[1])
    assert told is None, f"{claim} changes what {one.name} computes: {told}"
    return True


def proofs(claim: Claim) -> list[str]:
    """Returns the names of official tests that prove a claim, or else of its small model."""
    proven = (subject.name for subject in official_subjects(claim) if proves(claim, subject))
    found = [*itertools.islice(proven, PROOFS)]
    return found or [subject.name for subject in own_subjects(claim) if proves(claim, subject)]


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_both_sides_compute_the_same(claim: Claim) -> None:
    """A claim needs no example, because official test data prove it."""
    if too_new(claim):
        pytest.skip("the installed onnx is older than the claim")
    found = proofs(claim)
    if str(claim) in UNPROVEN:
        assert not found, f"{claim} is proven by {found[0]}: take it out of UNPROVEN"
    elif not found and OLDER:
        pytest.skip("the installed onnx is older, and has fewer tests")
    else:
        assert found, f"nothing proves {claim}: add a model to MODELS, or a reason to UNPROVEN"


@pytest.mark.parametrize("op", OWN)
def test_an_own_model_is_needed(op: str) -> None:
    claims = [claim for claim in CLAIMS if claim.op == op and not too_new(claim)]
    needed = any("own" in proofs(claim) for claim in claims)
    assert needed or OLDER, f"official tests prove all claims of {op}: take it out of MODELS"


@pytest.mark.parametrize("kind", official_nodes.OVER)
def test_large_poolings_are_computed_as_by_onnx(kind: str) -> None:
    x = np.random.default_rng(1).normal(size=(1, 2, 4, 5, 6)).astype(np.float32)
    task = x, x.shape, (2, 3, 2), [1, 1, 1], (3, 3, 5), kind
    quick, slow = official_nodes.pool(*task, p=3), official_nodes.LOOPS(*task, p=3)
    assert (quick.dtype, quick.shape) == (slow.dtype, slow.shape)
    np.testing.assert_allclose(quick, slow, rtol=1e-5, atol=1e-6)


def test_only_claims_are_listed_as_unproven() -> None:
    assert UNPROVEN.keys() <= set(map(str, CLAIMS))


def test_a_wrong_claim_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below opset 13, Softmax flattens its input, so this claim is wrong."""
    (wrong,) = boundary(13, "Softmax", directions="down")
    branch = registry.default().branch()
    branch._verdicts["", "Softmax", 13, 12] = wrong
    monkeypatch.setattr(registry, "default", lambda: branch)
    claim = Claim("Softmax", wrong)
    with pytest.raises(AssertionError, match="Softmax 13->12 changes what test_softmax"):
        assert all(proves(claim, subject) for subject in official_subjects(claim))
