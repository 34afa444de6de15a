# SPDX-License-Identifier: Apache-2.0
"""Operators whose inference crashes for negative sizes do not get negative sizes."""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from opshift.author import registry, safe_inference
from opshift.isolation_default import VARIABLE
from opshift.protos import onnx_process
from text_models import model

from tools.fuzz import seeds

MOST = int(os.environ.get("OPSHIFT_INFERENCE", "250"))
STRANGER = "(float[2] v) => (float[a,b] y) { x = acme.Own(v) y = EyeLike(x) }"
RISKY = {
    "an operator that is not known to be safe": (STRANGER, True),
    "a window behind a Slice": ("(float[1,1,9,9] x) => (float[] y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {3}> { v = Slice(x, s, e, a) y = AveragePool<kernel_shape=[1,7]>(v) }", True),
    "a window that always fits": ("(float[1,1,9,9] x) => (float[] y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {3}> { v = Slice(x, s, e, a) y = AveragePool<kernel_shape=[1,3], pads=[0,1,0,1]>(v) }", False),
    "a window that is known to fit": ("(float[1,1,9,9] x) => (float[] y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {3}> { v = AveragePool<kernel_shape=[1,7]>(x) y = Slice(v, s, e, a) }", False),
    "no such operator": ("(float[2,3] x) => (float[2,3] y) { y = Softmax<axis=1>(x) }", False),
}  # fmt: skip


@pytest.mark.parametrize("name", RISKY)
def test_by_default_the_command_isolates_what_is_risky(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, risky = RISKY[name]
    asked: list[str] = []

    def ask(call: str, given: list[Any], most: float) -> Any:
        asked.append(call)
        return given[0]

    monkeypatch.setattr(onnx_process, "ask", ask)
    monkeypatch.setenv(VARIABLE, "risky")
    safe_inference.infer(model(text, 13, more=', "acme" : 1'), registry.default())
    assert bool(asked) == risky


def test_the_command_survives_a_window_behind_a_slice(tmp_path: Path) -> None:
    """Only the inference of the first Slice finds the size that crashes that of AveragePool."""
    text = "(float[1,1,9,9] x) => (float y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {3}> { v = Slice(x, s, e, a) w = AveragePool<kernel_shape=[1,7]>(v) y = Slice(w, s, e, a) }"
    onnx.save(model(text, 13), tmp_path / "m.onnx")
    for verb in ("check", "lowest"):
        done = subprocess.run(
            [sys.executable, "-m", "opshift", verb, "m.onnx"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stderr


def test_a_model_changed_by_chance_does_not_end_inference() -> None:
    """OPSHIFT_INFERENCE=300000 infers nearly all changed models."""
    from changed_inference import Tally, changed

    tally = Tally()
    rng = random.Random(3)
    for words, made in changed(seeds.pool(("adapters",)), 3):
        if rng.random() < 0.1:
            tally.look(words, made)
        if tally.counts["inferred"] > MOST:
            break
    assert not tally.found, str(tally)
