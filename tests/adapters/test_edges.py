"""A sample of the examples runs on onnxruntime at the edges of what their inputs can be."""

import pytest

from tools.author import edges

SAMPLE = 120


def test_a_sample_computes_the_same_at_the_edges() -> None:
    pytest.importorskip("onnxruntime", "1.27")
    names = edges.sampled([one.name for one in edges.subjects()], SAMPLE)
    assert edges.unexplained(edges.survey(names, edges.SETS)) == []


def test_what_is_explained_is_about_examples() -> None:
    names = [one.name for one in edges.subjects()]
    assert [part for part in edges.known() if not any(part in name for name in names)] == []
