# SPDX-License-Identifier: Apache-2.0
"""The tool that measures how lean results are counts on a corpus made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from tools.corpus.lean import __main__ as lean
from tools.corpus.lean import latency, size_tables, sizes

X = np.array([[-1.0, 0.5, 2.0]], np.float32)
HARD = "{ y = HardSwish(x) }"
OWN = "{ h = HardSigmoid<alpha=0.1666667>(x) u = Exp(x) y = Mul(x, h) }"
CONSTANT = "{ c = Constant<value = float {2}>() y = Mul(x, c) }"


def write(folder: Path, body: str, opset: int) -> Path:
    """One model of a corpus, with one input `x`."""
    folder.mkdir()
    header = f'<ir_version: 8, opset_import: ["": {opset}]> g (float[1,3] x) => (float[1,3] y) '
    onnx.save(parser.parse_model(header + body), folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=X)
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Two exports of one model, and a model alone."""
    return [
        write(tmp_path / "swish_op14", HARD, 14),
        write(tmp_path / "swish_op13", OWN, 13),
        write(tmp_path / "constant", CONSTANT, 13),
    ]


def test_a_conversion_is_compared_with_the_other_export(folders: list[Path]) -> None:
    down, up = sorted(sizes.pairs(folders), key=lambda pair: pair.to)
    assert (down.start, down.to, down.converted, down.exported) == (14, 13, 2, 3)
    assert (up.start, up.to, up.converted, up.exported) == (13, 14, 3, 1)
    assert up.ratio == 3


def test_a_total_names_steps_and_counts_what_came_unread(folders: list[Path]) -> None:
    found = sizes.total(folders, 13)
    assert (found.models, found.before, found.after) == (3, 6, 7)
    assert found.added == {"HardSwish 14→13": 1}
    assert (found.came_unread, found.left_unread) == (1, 0)


def test_unread_nodes_are_found_in_branches() -> None:
    text = (
        '<ir_version: 8, opset_import: ["": 13]> g (bool c, float[3] x) => (float[3] y) {'
        " y = If (c) <then_branch = t () => (float[3] p) { q = Exp(x) p = Neg(x) },"
        " else_branch = e () => (float[3] r) { r = Abs(x) }> z = Exp(y) }"
    )
    graph = parser.parse_model(text).graph
    assert [node.op_type for node in sizes.unread_at_any_depth(graph)] == ["Exp", "Exp"]
    assert sizes.nodes_without_constants(graph) == 5


def test_latency_skips_what_does_not_change(folders: list[Path]) -> None:
    pytest.importorskip("onnxruntime")
    found = list(latency.speeds(folders, [13], seconds=0.001))
    assert [(speed.model, speed.target) for speed in found] == [("swish_op14", 13)]
    assert found[0].before > 0
    assert found[0].after > 0


def test_the_page_shows_every_figure(folders: list[Path]) -> None:
    speeds = [latency.Speed("swish_op14", 13, 1e-5, 3e-5)]
    found = size_tables.Measured(list(sizes.pairs(folders)), [sizes.total(folders, 13)], speeds)
    text = size_tables.page(found, "python -m tools.corpus lean --to 13")
    assert "| up | 1 | 1 | 3 | 3.000 | 3.000 | 3.00 |" in text
    assert "3 models: 6 nodes before and 7 after" in text
    assert "| swish_op14 | 10 µs | 30 µs | 3.00 |" in text


def test_the_command_writes_json(folders: list[Path], tmp_path: Path) -> None:
    words = ["--corpus", str(tmp_path), "--to", "13", "--no-latency", "--only", "swish*"]
    assert lean.main([*words, "--json", str(tmp_path / "figures.json")]) == 0
    assert '"HardSwish 14\\u219213": 1' in (tmp_path / "figures.json").read_text()


def test_what_modernize_finds_is_counted(tmp_path: Path) -> None:
    own = "{ h = HardSigmoid<alpha=0.16666667>(x) u = Exp(x) y = Mul(x, h) }"
    found = sizes.modernized([write(tmp_path / "a", own, 13), write(tmp_path / "b", HARD, 14)], 14)
    assert (found.models, found.without, found.nodes) == (1, 3, 2)
    assert (found.sites, found.replaced) == ({"HardSwish": 1}, {"HardSwish": 2})
    shown = size_tables.text(size_tables.Measured(modernized=[found]))
    assert "| HardSwish | 1 | 2 |" in shown
