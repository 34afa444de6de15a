# SPDX-License-Identifier: Apache-2.0
"""Models of the kinds that exporters write in 2026 convert for runtimes of other years."""

from __future__ import annotations

import pytest
from modern_models import TEXTS, inputs_of, modern_model
from onnx import ModelProto
from opshift import Refused, Result, accepts, check, convert
from opshift.verify import verify

pytestmark = pytest.mark.usefixtures("models_run_here")

RUNTIMES = ("onnxruntime==1.10", "onnxruntime==1.17")
WITHOUT_IMPORT = {"no_imports": "no operator set", "no_import_of_the_domain": "does not import"}


def converted(model: ModelProto, target: str) -> tuple[Result[ModelProto], dict[str, str]]:
    """Converts with the changes of types that refusals suggest; returns result and changes."""
    types: dict[str, str] = {}
    while True:
        try:
            return convert(model, target, types=types or None), types
        except Refused as refused:
            named = dict(refusal.types.split("=") for refusal in refused.refusals if refusal.types)
            if not named.keys() - types.keys():
                raise
            types |= named


@pytest.mark.parametrize("name", TEXTS)
def test_a_model_is_valid(name):
    texts = [
        finding.text for finding in check(modern_model(name)).found if finding.level == "error"
    ]
    wanted = WITHOUT_IMPORT.get(name)
    assert [wanted in text for text in texts] == ([True] if wanted else [])


@pytest.mark.parametrize(
    ("name", "target"),
    [(name, target) for name in TEXTS for target in RUNTIMES if name not in WITHOUT_IMPORT],
)
def test_what_is_converted_for_a_runtime_is_accepted_and_equal(name, target):
    source = modern_model(name)
    found, types = converted(source, target)
    assert accepts(found.model, target).answer != "no"
    compared = verify(source, found.model, inputs_of(name), isolated=False, in_double=bool(types))
    assert compared.equal, str(compared)


def test_a_missing_import_is_written_if_its_version_is_known():
    converted = convert(modern_model("no_imports"), "onnxruntime==1.17").model
    assert [opset.domain for opset in converted.opset_import] == [""]
    converted = convert(modern_model("no_import_of_the_domain"), "onnxruntime==1.17").model
    assert [opset.domain for opset in converted.opset_import] == ["", "com.microsoft"]
