# SPDX-License-Identifier: Apache-2.0
"""Every JSON outcome has the form that the published schema describes."""

from __future__ import annotations

import functools
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import opshift
import pytest
from click.testing import CliRunner
from json_schema import SCHEMA, faults, unused
from onnx import parser
from opshift import json_form
from opshift.cli import commands
from opshift.cli.entry import main
from opshift.opsets import installed_set, operator_set
from opshift.zoo import marks

from tools.author import docs

SOFTMAX = '<ir_version: 7, opset_import: ["" : 12]> g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }'
ERF = '<ir_version: 7, opset_import: ["" : 13]> g (double[2] x) => (double[2] y) { y = Erf(x) }'
COMPUTED = '<ir_version: 9, opset_import: ["" : 19]> g (float[N,4] x, int64[k] s) => (float[a,b] y) { y = Reshape<allowzero=1>(x, s) }'
MISH = '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { a = Softplus(x) b = Tanh(a) y = Mul(x, b) }'
EQUAL = '<ir_version: 6, opset_import: ["" : 11]> g (float[2] x, float[2] y) => (bool[2] z) { z = Equal(x, y) }'
WEIGHT = '<ir_version: 4, opset_import: ["" : 9]> g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }'

# The words of each run, and the kind of its outcome. {} is the folder of the models.
RUNS = [
    ("convert {}/softmax.onnx -o {}/o.onnx --to 13", "report"),
    ("convert {}/softmax.onnx -o {}/o.onnx --to 13 --verify", "report"),
    ("convert {}/softmax.onnx -o {}/o.onnx --to 12", "report"),
    ("convert {}/softmax.onnx -o {}/o.onnx --ir 8", "report"),
    ("convert {}/computed.onnx -o {}/o.onnx --to 7 --assume no-zero-dims", "report"),
    ("convert {}/softmax.onnx {}/erf.onnx --to 8 --check", "several"),
    ("convert {}/erf.onnx -o {}/o.onnx --to 8", "refused"),
    ("convert {}/softmax.onnx -o {}/o.onnx --to 99", "error"),
    ("convert {}/nothing.onnx -o {}/o.onnx --to 13", "error"),
    ("convert {}/text.onnx -o {}/o.onnx --to 13", "error"),
    ("convert {}/softmax.onnx --to 13", "error"),
    ("plan {}/softmax.onnx --to 13", "plan"),
    ("plan {}/erf.onnx --to 8", "plan"),
    ("plan {}/softmax.onnx --to 12", "plan"),
    ("plan {}/mish.onnx --modernize --to 18", "plan"),
    ("lowest {}/softmax.onnx", "lowest"),
    ("lowest {}/weight.onnx", "lowest"),
    ("lowest {}/erf.onnx {}/text.onnx", "several"),
    (f"convert {{}}/erf.onnx --dry-run --runtime {sys.executable}", "report"),
    ("verify {}/softmax.onnx {}/softmax.onnx", "verification"),
    ("verify {}/erf.onnx {}/neg.onnx", "verification"),
    ("info {}/softmax.onnx", "info"),
    ("info {}/ml.onnxopset", "operator_set"),
    ("check {}/ml.onnxopset", "operator_set"),
    ("targets", "targets"),
    ("targets onnxruntime", "targets"),
    ("targets {}/softmax.onnx onnxruntime==1.10", "survey"),
    ("accepts {}/softmax.onnx --for onnxruntime==1.2", "accepts"),
    ("accepts {}/softmax.onnx --opset 9", "accepts"),
    (f"probe {sys.executable} --op Neg --sample 2", "probe"),
    ("audit {}/softmax.onnx", "audit"),
    ("audit {}/equal.onnx --to 10", "audit"),
    ("check {}/softmax.onnx", "check"),
    ("check {}/wrong.onnx", "check"),
    ("check {}/softmax.onnx {}/text.onnx", "several"),
    ("diff {}/softmax.onnx {}/erf.onnx", "diff"),
    ("diff {} {}", "folder_diff"),
    ("ops Gelu --domain com.microsoft", "ops"),
    ("ops Softmax", "ops"),
    ("ops --since 12 --diff 13", "ops"),
    ("ops --export ai.onnx 13 -o {}/ops.onnx", "written"),
    ("adapters Softmax", "adapters"),
    ("adapters", "adapters"),
    ("adapters Sofmax", "error"),
    ("versions", "versions"),
    ("explain", "codes"),
    ("explain NEEDS_SHAPE", "code"),
    ("explain NEEDS_SHAP", "error"),
    ("completion bash", "completion"),
    ("batch {} --dry-run --to 8", "batch"),
    ("batch {} --dry-run --to 8 --runtimes onnxruntime==1.10", "batch"),
    ("targett", "error"),
]
MEASURES = ("--verify", "--runtime ", "probe", "completion")  # they need a runtime or a shell
MEASURING = {words for words, _ in RUNS if any(one in words for one in MEASURES)}
ALONE = {"schema"}  # it prints the schema itself


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_models(tmp_path_factory.mktemp("models"))


def save_models(home: Path) -> Path:
    neg = ERF.replace("Erf", "Neg")
    texts = {"softmax": SOFTMAX, "erf": ERF, "computed": COMPUTED, "neg": neg}
    texts |= {"mish": MISH, "weight": WEIGHT, "equal": EQUAL}
    for name, text in texts.items():
        onnx.save(parser.parse_model(text), home / f"{name}.onnx")
    wrong = parser.parse_model(SOFTMAX)
    wrong.graph.node[0].input[0] = "nobody"
    onnx.save(wrong, home / "wrong.onnx")
    (home / "text.onnx").write_text("no model\n")
    (home / "ml.onnxopset").write_bytes(
        operator_set.write(installed_set.of_installed("ai.onnx.ml", 3))
    )
    return home


def told(words: str, folder: Path, form: str = "json") -> Any:
    run = [*words.replace("{}", str(folder)).split(" "), "--output-format", form]
    text = CliRunner().invoke(main, run).stdout
    return json.loads(text)


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Callable[[str], Any]:
    """The outcome of a run of the table, which runs once for all tests that read it."""
    return functools.cache(lambda words: told(words, folder))


@pytest.mark.usefixtures("models_run_here")
@pytest.mark.parametrize(("words", "kind"), RUNS, ids=[words for words, _ in RUNS])
def test_an_outcome_has_its_form(words, kind, outcome, monkeypatch):
    monkeypatch.setattr("click.shell_completion.BashComplete._check_version", lambda *_: None)
    if any(one in words for one in ("verify", "--runtime", "probe")):
        pytest.importorskip("onnxruntime")
    found = outcome(words)
    assert found["kind"] == kind, found
    assert not list(faults(found))


@pytest.mark.usefixtures("models_run_here")
def test_every_field_of_the_schema_is_written_by_some_run(folder, outcome, tmp_path):
    """With the test above, the schema and the dataclasses cannot differ in either direction."""
    pytest.importorskip("onnxruntime")
    for words, _ in RUNS:
        if not words.startswith("completion"):
            assert not list(faults(outcome(words)))
    rows = tmp_path / "rows.jsonl"
    told(f"batch {{}} {tmp_path / 'out'} --to 8 --workers 1 --results {rows}", folder)
    for row in rows.read_text().splitlines():
        assert not list(faults(json.loads(row)))
    assert [field for field in unused() if not field.startswith("/$defs/completion")] == []


@pytest.mark.usefixtures("models_run_here")
def test_outcomes_are_equal_under_all_hashes(folder, outcome, tmp_path):
    """The hashes of strings differ between this process and the other one."""
    first = {words: json.dumps(outcome(words)) for words, _ in RUNS if words not in MEASURING}
    assert len(first) > len(RUNS) // 2
    other = all_told(save_models(tmp_path), "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1")
    for words, text in first.items():
        assert text.replace(str(folder), "") == other[words].replace(str(tmp_path), "")


def all_told(folder: Path, seed: str) -> dict[str, str]:
    """Returns the outcomes of the runs without measurements, from a process with this hash seed."""
    script = f"""
import json
from pathlib import Path
from test_json import MEASURING, RUNS, told
for words, _ in RUNS:
    if words not in MEASURING:
        print(words, json.dumps(told(words, Path({str(folder)!r}))), sep="\\t")
"""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    lines = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
    ).stdout.splitlines()  # fmt: skip
    return dict(line.split("\t") for line in lines)


def test_every_command_and_every_kind_is_tried():
    words = {run.split(" ")[0] for run, _ in RUNS}
    names = {path.stem for path in Path(commands.__path__[0]).glob("*.py")} - {"__init__"}
    assert names - ALONE <= words
    tried = {kind for _, kind in RUNS} | {"row"}
    assert tried == {name for name, one in SCHEMA["$defs"].items() if "title" in one}


def test_each_line_of_several_has_its_form(folder):
    run = ["check", *sorted(map(str, folder.glob("*.onnx"))), "--output-format", "jsonl"]
    lines = CliRunner().invoke(main, run).stdout.splitlines()
    assert len(lines) > 3
    for line in map(json.loads, lines):
        assert "model" in line
        assert not list(faults(line))


def test_the_command_prints_the_schema_that_is_shipped():
    shipped = pkgutil.get_data("opshift", "outcomes.schema.json") or b""
    for form in ([], ["--output-format", "json"]):
        done = CliRunner().invoke(main, ["schema", *form])
        assert json.loads(done.stdout) == json.loads(shipped)


def test_the_page_names_every_outcome():
    page = docs.json_page()
    kinds = [name for name, one in SCHEMA["$defs"].items() if "title" in one]
    assert kinds
    assert all(f"\n## {name}\n" in page for name in kinds)


@pytest.mark.parametrize("command", ["info", "check", "lowest", "targets"])
def test_json_is_the_short_form_of_every_command(command, tmp_path):
    onnx.save(parser.parse_model(SOFTMAX), tmp_path / "m.onnx")
    words = [command, str(tmp_path / "m.onnx")]
    short, long = (
        CliRunner().invoke(main, [*words, *form]).stdout
        for form in (["--json"], ["--output-format", "json"])
    )
    assert short == long
    assert json.loads(short)


@pytest.mark.parametrize("words", [["info", "--json"], ["nothing", "--json"], ["--json"]])
def test_json_also_for_a_command_line_that_cannot_be_read(words):
    document = json.loads(CliRunner().invoke(main, words).stdout)
    assert (document["kind"], document["code"]) == ("error", "BAD_USAGE")


def test_every_field_is_explained():
    def unexplained(one: Any, at: str) -> Iterator[str]:
        for name, field in one.get("properties", {}).items():
            if not field.get("description", "").endswith("."):
                yield f"{at}.{name}"
            yield from unexplained(field, f"{at}.{name}")
        for inner in (one.get("items"), one.get("additionalProperties")):
            if isinstance(inner, dict):
                yield from unexplained(inner, at)

    assert not [at for name, one in SCHEMA["$defs"].items() for at in unexplained(one, name)]


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "reports"}, {"schema_version": 2}, {"notes": "text"}, {"nodes_after": "7"},
        {"surprise": 1}, {"source": {"": "12"}}, {"steps": [{}]}, {"repaired": 0},
    ],
    ids=str,
)  # fmt: skip
def test_another_form_is_seen(change):
    good = opshift.convert(parser.parse_model(SOFTMAX), 13).report.as_dict()
    good = json.loads(json.dumps(good))
    assert not list(faults(good))
    assert list(faults({**good, **change}))
    del good["notes"]
    assert list(faults(good))


def test_the_identity_of_a_verdict_names_the_boundary():
    from opshift.author import registry

    names = [adapter.identity(op) for (_, op, _, _), adapter in registry.default()]
    assert len(names) == len(set(names))
    assert {"ai.onnx.Reshape-14-13", "ai.onnx.Reshape-form", "com.microsoft.Gelu-leave"} <= {*names}
    report = opshift.convert(parser.parse_model(SOFTMAX), 13).report
    assert report.steps[0].rewritten[0].id == "ai.onnx.Softmax-12-13"


FAULTY = {"deep": "[" * 100_000, "long number": "1" * 5_000, "cut": "{", "no text": b"\xff"}


@pytest.mark.parametrize("text", FAULTY.values(), ids=FAULTY)
def test_json_of_any_content_is_read_or_faulty(text: str | bytes, tmp_path: Path) -> None:
    with pytest.raises(json.JSONDecodeError):
        json_form.parsed(text)
    assert marks.Mark.decoded(text if isinstance(text, bytes) else text.encode()) is None
    (tmp_path / "r.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    done = CliRunner().invoke(main, ["targets", "--learn", str(tmp_path / "r.json")])
    assert (done.exit_code, "is not JSON" in done.stderr) == (2, True)
