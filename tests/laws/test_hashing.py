# SPDX-License-Identifier: Apache-2.0
"""The bytes and the report of a conversion do not depend on the hashes of names."""

import os
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).parents[1] / "support"
ENDS = ", ".join(f"int64[2] size{at}" for at in range(6))
READS = " ".join(f"y{at} = Reshape(x, size{at})" for at in range(6))
MANY_SIZES = f"(float[N,M] x, {ENDS}) => ({', '.join(f'float[A{at},B] y{at}' for at in range(6))})"
CHILD = f"""
import hashlib
import opshift
from modern_models import TEXTS, modern_model
from opshift.testing.model_text import parse_model

REQUESTS = (
    (9, {{}}), ("onnxruntime==1.4", {{}}), (22, {{"modernize": True}}),
    (17, {{"types": {{"int64": "int32"}}}}),
)
sizes = parse_model('<ir_version: 8, opset_import: ["" : 17]> g {MANY_SIZES} {{ {READS} }}')
for model in (sizes, *map(modern_model, TEXTS)):
    for target, options in REQUESTS:
        try:
            found = opshift.convert(model, target, **options)
        except opshift.OpshiftError as error:
            print(model.graph.name, target, options, type(error).__name__, error)
        else:
            written = hashlib.sha256(found.model.SerializeToString(deterministic=True))
            print(model.graph.name, target, options, written.hexdigest(), found.report)
"""


def told(seed: str) -> str:
    """Returns the outcomes of all requests from a process with this hash seed."""
    return subprocess.run(
        [sys.executable, "-c", CHILD], check=True, capture_output=True, text=True,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(SUPPORT)},
    ).stdout  # fmt: skip


def test_results_and_reports_are_equal_under_all_hashes() -> None:
    first, other = (told(seed).splitlines() for seed in ("1", "2"))
    assert any("int64 stays in 'size0', 'size1'" in line for line in first)
    assert other == first
