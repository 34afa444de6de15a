# SPDX-License-Identifier: Apache-2.0
"""A sample of the kernels of the oracle, compared with other engines; the comparison can fail."""

from __future__ import annotations

import os

import numpy as np
import oracle_cases
import oracle_differences as oracle
import pytest
from newest_onnx import IS_OLDER
from opshift.verify.oracle import kernel_registry

pytest.importorskip("onnxruntime")
pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="the processes are forked"),
    pytest.mark.skipif(IS_OLDER, reason="the reasons are about the newest onnx"),
]

# Patterns of operators; OPSHIFT_ORACLE="*" compares all of them.
SAMPLE = os.environ.get("OPSHIFT_ORACLE", "Clip OneHot Hardmax PRelu ReduceMax").split()


def test_a_sample_of_kernels_differs_only_where_there_is_a_reason() -> None:
    """Only this test compares the oracle with other engines on NaN, ties and extremes."""
    found, known = oracle.compared(oracle_cases.cases(SAMPLE, data=False)), oracle.reasons()
    assert list(oracle.unexplained(found, known)) == []
    assert found["Clip 11..", oracle_cases.RUNTIME].compared > 50
    assert found["ReduceMax 18..", oracle_cases.RUNTIME].sets["nan"]

    told = list(oracle.unexplained(found, {}))
    assert any(text.startswith("ReduceMax 18.. and onnxruntime differ (") for text in told)


def test_a_kernel_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (case, *_) = (c for c in oracle_cases.cases(["Clip"], data=False) if c.since == 11)
    right = oracle_cases.examine(case).detail
    monkeypatch.setattr(
        oracle_cases.oracle, "evaluate", lambda model, feeds: [np.zeros((9, 9), np.float32)]
    )
    assert "shape" in oracle_cases.examine(case).detail
    assert "shape" not in right


def test_every_reason_is_about_a_kernel() -> None:
    labels = {
        oracle.label(key, row) for key, rows in kernel_registry.KERNELS.items() for row in rows
    }
    for name, engine in oracle.reasons():
        assert name in labels
        assert engine in oracle_cases.JUDGES
