# SPDX-License-Identifier: Apache-2.0
"""A short sample of fuzzing, and all earlier findings of fuzzing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import ModelProto

from tools.fuzz import case as fuzz_case
from tools.fuzz import promises as fuzz_judge
from tools.fuzz import run as fuzz
from tools.fuzz import seeds

RUNS, FIRST = 150, 1
FOUND = sorted((Path(__file__).parents[1] / "corpus" / "fuzz").glob("*.json"))


ANY_VERSION = ("import_of_a_huge_version",)


def newest(model: bytes) -> int:
    """Returns the highest imported version of the default domain; 0 if the model is unreadable."""
    try:
        read = ModelProto.FromString(model)
    except DecodeError:
        return 0
    return max((entry.version for entry in read.opset_import), default=0)


@pytest.fixture(scope="module")
def pool() -> list[bytes]:
    """Returns the source models that are available without other packages."""
    return seeds.pool(("frozen", "adapters"))


def test_a_sample_ends_as_it_may(pool: list[bytes]) -> None:
    """Each broken model ends in a result or a documented error."""
    tally = fuzz.Tally()
    numbers = range(FIRST, FIRST + RUNS)
    for outcome in fuzz.fuzz(pool, numbers, jobs=1, verbs=fuzz_case.CONVERSIONS):
        tally.add(outcome)
    assert not tally.found, dict(tally.found)
    kinds = sum(tally.counts.values(), fuzz.Counter())
    assert kinds.total() == RUNS
    assert {"valid", "planned", "Refused", "InvalidModel", "BadTarget"} <= kinds.keys()
    # One of six is valid and one of twenty planned: to refuse everything is no way to pass.
    assert kinds["valid"] >= RUNS // 10, kinds
    assert kinds["planned"] >= RUNS // 75, kinds


def test_a_sample_of_questions_is_answered(pool: list[bytes]) -> None:
    """Each command that only inspects a model answers, or reports that the model is broken."""
    tally = fuzz.Tally()
    for outcome in fuzz.fuzz(pool, range(FIRST, FIRST + RUNS // 2), jobs=1, verbs=fuzz_case.LOOKS):
        tally.add(outcome)
    assert not tally.found, dict(tally.found)
    kinds = sum(tally.counts.values(), fuzz.Counter())
    assert kinds["answered"] >= RUNS // 8, kinds


def test_every_verb_is_drawn(pool: list[bytes]) -> None:
    made = [fuzz_case.make(pool, number).call.function for number in range(300)]
    assert {*made} == {*fuzz_case.VERBS}


def test_the_command(tmp_path: Path) -> None:
    """Only this test starts the command in the form that runs every night."""
    command = [
        sys.executable,
        "-m",
        "tools.fuzz",
        "run",
        "--runs",
        "6",
        "--seed",
        "1",
        "--seeds",
        "frozen",
    ]
    done = subprocess.run(
        [*command, "--save", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    assert "answers" in done.stdout


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_once(path: Path) -> None:
    case = fuzz_case.Case.load(path)
    if newest(case.model) > onnx.defs.onnx_opset_version() and path.stem not in ANY_VERSION:
        pytest.skip("the installed onnx is older than the model")
    ending = fuzz_judge.judge(case)
    if ending.kind == "BadTarget" and "that the installed onnx" in ending.detail:
        pytest.skip("the installed onnx is older than the target")
    assert ending.kind == json.loads(path.read_text())["ends"], ending


def test_a_number_makes_one_case(pool: list[bytes]) -> None:
    made = [fuzz_case.make(pool, number) for number in range(20)]
    assert made == [fuzz_case.make(pool, number) for number in range(20)]
    assert len({case.model for case in made}) == 20


def test_a_case_is_saved_and_read(pool: list[bytes], tmp_path: Path) -> None:
    case = fuzz_case.make(pool, 7)
    case.save(tmp_path / "7.json", "why")
    assert fuzz_case.Case.load(tmp_path / "7.json") == case


@pytest.fixture
def case(pool: list[bytes]) -> fuzz_case.Case:
    """A model that converts."""
    model = ModelProto(ir_version=8)
    model.opset_import.add(version=13)
    model.graph.name = "g"
    model.graph.node.add(op_type="Neg", input=["x"], output=["y"])
    for value in (model.graph.input.add(name="x"), model.graph.output.add(name="y")):
        value.type.tensor_type.elem_type = 1
        value.type.tensor_type.shape.dim.add(dim_value=2)
    call = fuzz_case.FuzzCall("convert_file", "beside", 12)
    return fuzz_case.Case(model.SerializeToString(), {}, call)


def test_what_is_right_is_no_finding(case: fuzz_case.Case) -> None:
    assert fuzz_judge.judge(case).kind == "valid"


FAULTS = {
    "a file is left behind": lambda src, dst: Path("work/.tmp").write_text("left"),
    "the source is changed": lambda src, dst: Path(src).write_bytes(b"gone"),
    "an exception": lambda src, dst: 1 / 0,
    "not the version asked for": lambda src, dst: None,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(
    fault: str, case: fuzz_case.Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert_file(src: str, dst: str, target: int, **_: object) -> None:
        Path(dst).write_bytes(Path(src).read_bytes())
        FAULTS[fault](src, dst)

    monkeypatch.setattr(fuzz_judge.opshift, "convert_file", convert_file)
    assert fuzz_judge.judge(case).is_finding


def test_a_delay_is_found(pool: list[bytes]) -> None:
    tally = fuzz.Tally()
    impatient = fuzz.ModelLimits(seconds=0.001, retries=0)
    for outcome in fuzz.fuzz(pool, range(5), jobs=1, limits=impatient):
        tally.add(outcome)
    assert tally.found


def test_processor_time_is_bounded(case: fuzz_case.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_judge, "PATIENCE", 0.0)
    assert "processor time" in fuzz_judge.judge(case).detail
