# SPDX-License-Identifier: Apache-2.0
"""What opshift's own judge has never heard of is computed by the vendor."""

from __future__ import annotations

import pytest
from onnx.reference import ReferenceEvaluator
from test_fast_conv import FastConv


@pytest.fixture(scope="session")
def opshift_evaluate():
    return lambda model, inputs: ReferenceEvaluator(model, new_ops=[FastConv]).run(None, inputs)
