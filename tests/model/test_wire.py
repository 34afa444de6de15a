# SPDX-License-Identifier: Apache-2.0
"""The fields of a message: bytes that begin no field end the reading at once."""

from __future__ import annotations

import pytest
from opshift.model.bytes import header_imports, wire
from text_models import model

MODEL = model("(float[2] x) => (float[2] y) { y = Relu(x) }", 12).SerializeToString()


@pytest.mark.parametrize("first", [b"", MODEL], ids=["a hole", "a model and a hole"])
def test_a_hole_in_a_file_is_not_read_to_its_end(first: bytes) -> None:
    """A broken download may have reserved some gigabytes, and each pair of zeros looks like a field."""
    data = first + bytes(1000)
    message = f"byte {len(first)} does not begin a field"
    with pytest.raises(wire.Malformed, match=message):
        header_imports.domains(data)
    with pytest.raises(wire.Malformed, match=message):
        wire.carve(data, wire.THRESHOLD)
