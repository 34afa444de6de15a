# SPDX-License-Identifier: Apache-2.0
"""Collects small legal models of every operator, which the fuzzer changes."""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from opshift import testing
from opshift.testing import example_models

from tools.conformance import node_tests

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 20_000
SOURCES = ("frozen", "adapters", "nodes", "corpus")


def pool(sources: Sequence[str]) -> list[bytes]:
    """Returns the serialized models of some sources, in a fixed order."""
    by_source = {
        "frozen": _frozen,
        "adapters": _examples_of_adapters,
        "nodes": _official_node_tests,
        "corpus": _real_models,
    }
    texts = (text for source in sources for text in by_source[source]())
    return [text for text in dict.fromkeys(texts) if len(text) <= LARGEST]


def today() -> int:
    """Returns the number of the first run of this day, such as 20261122."""
    return int(f"{datetime.now(timezone.utc):%Y%m%d}")


def digest(models: Sequence[bytes]) -> str:
    """Returns a short digest that differs if two runs start from different models."""
    return hashlib.sha256(pickle.dumps(list(models))).hexdigest()[:12]


def keep(models: Sequence[bytes], path: Path) -> None:
    """Writes a pool of models for child processes."""
    path.write_bytes(pickle.dumps(list(models)))


@functools.cache
def kept(path: str) -> list[bytes]:
    """Reads the pool from a file, once in each child process."""
    models: list[bytes] = pickle.loads(Path(path).read_bytes())
    return models


def _frozen() -> Iterator[bytes]:
    for folder in ("tests/corpus", "examples"):
        yield from _files(ROOT / folder, "*.onnx")


def _examples_of_adapters() -> Iterator[bytes]:
    """Yields each example that this onnx can read, at the source version of its adapter."""
    for adapter, example in testing.examples("opshift_adapters"):
        if not example_models.too_new(adapter, example):
            model = testing.example_model(adapter, example)
            yield model.SerializeToString(deterministic=True)


def _official_node_tests() -> Iterator[bytes]:
    for case in sorted(node_tests.collected(), key=lambda case: str(case.name)):
        if case.model is not None:
            yield case.model.SerializeToString(deterministic=True)


def _real_models() -> Iterator[bytes]:
    """Yields models of exporters, if there is a corpus next to the repository."""
    yield from _files(ROOT.parent / "shared" / "corpus", "*/model.onnx")


def _files(folder: Path, pattern: str) -> Iterator[bytes]:
    for path in sorted(folder.glob(pattern)):
        if path.stat().st_size <= LARGEST:
            yield path.read_bytes()
