# SPDX-License-Identifier: Apache-2.0
"""Generates the operator version database: the old entries, and those that the installed onnx adds.

`opshift ops build` writes the database of a vendor's domain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from opshift.author.database import build, merged
from opshift.opsets import schemas
from opshift.opsets.opset_changelog_pb2 import OpsetChangelog
from opshift.versions import DOMAINS

SHIPPED = Path(schemas.__file__).with_name("opset_changelog.bin")


def files() -> Mapping[Path, Callable[[], bytes]]:
    """The generated file."""
    return {SHIPPED: _database}


def _database() -> bytes:
    old = OpsetChangelog.FromString(SHIPPED.read_bytes())
    return merged(old, build(DOMAINS)).SerializeToString(deterministic=True)
