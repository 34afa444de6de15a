"""The generated documents say what the adapters say."""

from opshift.author import registry

import docs


def test_a_page_lists_every_crossing_with_its_examples():
    page = docs.page("", "Softmax")
    assert "## 12 → 13: rewritten" in page
    assert "refused: " in docs.page("", "Erf")
    assert "| last axis |" in page


def test_the_matrix_counts_every_crossing_once():
    totals = " ".join(docs._totals(""))
    counted = sum(int(word) for word in totals.replace(",", " ").split() if word.isdecimal())
    crossings = sum(
        1
        for (domain, _, start, to), _ in registry.default()
        if domain == "" and start != to and max(start, to) <= docs.schemas.latest("")
    )
    missing = sum(
        docs.verdict("", op, *c) == "missing"
        for op in docs.schemas.operators("")
        for c in docs.crossings("", op)
    )
    assert counted == crossings + missing


def test_the_picture_is_one_whole_svg():
    text = docs.picture()
    assert text.startswith("<svg")
    assert text.rstrip().endswith("</svg>")
    assert "Softmax 12 to 13: rewritten" in text
