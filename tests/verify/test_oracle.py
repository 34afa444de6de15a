# SPDX-License-Identifier: Apache-2.0
"""The oracle computes the official node tests, and examples of the specification."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import official_nodes
import pytest
from onnx import ModelProto, NodeProto, TensorProto, defs, numpy_helper
from opshift.opsets import schemas
from opshift.verify.oracle import OracleError, compare, evaluate, trust
from opshift.verify.oracle.kernel_registry import KERNELS

RANDOM = ("test_bernoulli", "test_training_dropout")
"""Tests whose expected values come from another random generator."""
NOBODY = ("test_image_decoder",)
# Their aligned corners lie at the end of an unrounded length, not of the resized tensor.
AGAINST_THE_TEXT = (
    "test_resize_downsample_scales_cubic_align_corners",
    "test_resize_downsample_scales_linear_align_corners",
)
CHANGED = {
    "Softmax": 13,
    "LogSoftmax": 13,
    "Hardmax": 13,
    "OneHot": 11,
    "BatchNormalization": 7,
    "Dropout": 7,
}
"""Operators whose meaning changed at the version, other than by a default of an attribute."""
SHARDS = 8

pytestmark = pytest.mark.skipif(
    trust.OLD, reason="the judge is measured with the reference and the data of the newest onnx"
)


# --- the official node cases


@cache
def _cases() -> list[Any]:
    return [case for case in official_nodes.collected() if case.model is not None]


def _plain(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _feeds(case: Any) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    names = [info.name for info in case.model.graph.input]
    for inputs, outputs in case.data_sets:
        yield (
            {name: _plain(value) for name, value in zip(names, inputs, strict=False)},
            [_plain(value) for value in outputs],
        )


def _differs(case: Any, judged: ModelProto) -> str | None:
    for feeds, outputs in _feeds(case):
        found = compare(
            outputs, evaluate(judged, feeds), rtol=case.rtol or 1e-3, atol=case.atol or 1e-7
        )
        if found:
            return found
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_official_cases(shard: int) -> None:
    wrong = {}
    for case in _cases()[shard::SHARDS]:
        if not case.name.startswith(RANDOM + NOBODY + AGAINST_THE_TEXT):
            found = _differs(case, case.model)
            if found:
                wrong[case.name] = found
    assert wrong == {}


def _changes_a_default(node: NodeProto, version: int) -> bool:
    """Returns whether an attribute that the node omits has another default at this version."""
    older, newest = (
        schemas.schema(node.domain, node.op_type, at).attributes
        for at in (version, schemas.latest(node.domain))
    )
    omitted = older.keys() & newest.keys() - {attribute.name for attribute in node.attribute}
    defaults = ((older[name].default, newest[name].default) for name in omitted)
    return any(None not in pair and pair[0] != pair[1] for pair in defaults)


@cache
def _versions(domain: str, op: str) -> tuple[int, ...]:
    history = defs.get_all_schemas_with_history()
    return tuple(s.since_version for s in history if (s.domain, s.name) == (domain, op))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_official_cases_at_every_older_version_that_allows_the_node(shard: int) -> None:
    wrong = {}
    for case in _cases()[shard::SHARDS]:
        if case.name.startswith(RANDOM + AGAINST_THE_TEXT) or len(case.model.graph.node) != 1:
            continue
        node = case.model.graph.node[0]
        for version in _versions(node.domain, node.op_type):
            if version < CHANGED.get(node.op_type, 1) or _changes_a_default(node, version):
                continue
            older = ModelProto()
            older.CopyFrom(case.model)
            for entry in older.opset_import:
                if entry.domain == node.domain:
                    entry.version = min(entry.version, version)
            try:
                found = _differs(case, older)
            except OracleError:
                continue
            if found:
                wrong[case.name, version] = found
    assert wrong == {}


# --- who is trusted


def test_every_operator_has_a_judge_or_is_listed_as_having_none() -> None:
    orphans = {
        (schema.domain, schema.name)
        for schema in defs.get_all_schemas_with_history()
        if not schema.deprecated
        and trust.judged(schema.domain, schema.name, schema.since_version) is None
    }
    assert orphans == set(trust.NOBODY)


def test_every_kernel_judges_a_version_that_exists() -> None:
    for (domain, op), rows in KERNELS.items():
        versions = _versions(domain, op)
        for row in rows:
            assert any(row.since <= version <= row.until for version in versions), (op, row)
            assert row.why, op


def test_readme_shows_the_trust_table() -> None:
    assert trust.table() in (Path(__file__).parent / "oracle.md").read_text()
