# SPDX-License-Identifier: Apache-2.0
"""The generated documents agree with the adapters."""

import re

from opshift import codes
from opshift.author import registry
from opshift.author.misreadings import all_misreadings
from opshift.opsets import targets

from tools.author import docs


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


def test_a_band_goes_from_opset_to_opset():
    rows = docs.bands("", "Softmax").splitlines()
    assert len(rows) == 2
    spans = [int(span) for span in re.findall(r'colspan="(\d+)"', rows[0])]
    assert sum(spans) == docs.schemas.latest("")
    assert 'class="band-rewritten" title="Softmax 12 to 13: rewritten.' in rows[0]


def test_every_generated_page_is_linked(tmp_path):
    docs.write(tmp_path)
    index = (tmp_path / "adapters" / "index.md").read_text()
    names = {path.name for path in (tmp_path / "adapters").glob("*.md")} - {"index.md"}
    assert all(f"({name})" in index for name in names)
    listed = (tmp_path / "codes" / "index.md").read_text()
    assert all(f"[{code}]({code}.md)" in listed for code in codes.names())
    page = (tmp_path / "codes" / "NEEDS_SHAPE.md").read_text()
    assert page == docs.NOT_IN_MENU + codes.page("NEEDS_SHAPE").text
    assert "## opshift convert" in (tmp_path / "command.md").read_text()


def test_the_table_of_runtimes_has_each_release_with_its_source_and_date():
    text = docs.pages()["runtimes.md"]
    for row in targets.releases_of(targets.ALL):
        section = text.partition(f"\n## {row.name}\n")[2].partition("\n## ")[0]
        (line,) = [
            splitline
            for splitline in section.splitlines()
            if splitline.startswith(f"| {row.shown.partition('==')[2] or 'any'} |")
        ]
        assert row.source.replace("|", "\\|") in line
        assert row.date in line
        assert row.probed is None or row.probed.how.source in line
        top = row.imports.get("")
        assert top is None or f"{top} |" in line
        found = all_misreadings(registry.default(), row)
        assert all(form.described(op) in line for op, form in found)


def test_the_first_page_links_the_table_of_runtimes():
    assert "(reference/generated/runtimes.md)" in (docs.DOCS / "index.md").read_text("utf-8")


def test_the_page_of_the_command_shows_what_a_user_types():
    usage = [line for line in docs.command_page().splitlines() if line.startswith("Usage: ")]
    assert usage[0].startswith("Usage: opshift [OPTIONS] COMMAND")
    assert all(line.startswith("Usage: opshift ") for line in usage)
