# SPDX-License-Identifier: Apache-2.0
"""One example of each adapter computes the same on every set of inputs."""

import re

import pytest
from opshift.opsets import schemas
from opshift.testing.surveys import ListedExample, pattern, reasons, sampled, subjects, survey
from vendor_judge import EXAMPLES, block_width

from tools.author.edges import PACKAGE, REASONS


def test_one_example_of_each_adapter_computes_the_same_on_every_set() -> None:
    pytest.importorskip("onnxruntime", "1.27")
    newest = {domain: schemas.latest(domain) for domain in ("", "ai.onnx.ml")}
    if any(too_new(subject, newest) for subject in subjects(PACKAGE)):
        pytest.skip("the installed onnx is older than some examples")
    done = survey(sampled(subjects(PACKAGE)))
    assert done.unexplained(reasons(REASONS)) == []
    other = "contrib.nchwc." if block_width() != EXAMPLES else None  # blocks of this processor
    assert [text for text in done.idle if other is None or not text.startswith(other)] == []
    assert sum(done.ran.values()) > 6 * len(done.ran)


def too_new(subject: ListedExample, newest: dict[str, int | None]) -> bool:
    adapter = subject.adapter
    return max(adapter.start, adapter.to) > (newest.get(adapter.domain) or 1000)


def test_what_is_explained_is_about_examples() -> None:
    names = "\n".join(subject.name for subject in subjects(PACKAGE))
    parts = [part.partition("[")[0].strip() for part in reasons(REASONS)]
    assert [part for part in parts if not pattern(part).search(names)] == []


def test_no_explanation_is_found_by_a_line_number() -> None:
    """An explanation must not contain a line number, because line numbers change with each edit."""
    assert [part for part in reasons(REASONS) if re.search(r":\d+", part)] == []
