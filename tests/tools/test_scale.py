# SPDX-License-Identifier: Apache-2.0
"""A zoo in which models hang and kill, while the driver and workers are killed, in small."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest
from text_models import model

from tools.bench import scale, scale_run, scale_zoo
from tools.bench.scale_places import Bucket, Folder, Server

COUNT = 40

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are killed by signals")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many bad models in 40 as elsewhere in 5,000."""
    monkeypatch.setattr(scale_zoo, "BROKEN", 10)
    monkeypatch.setattr(scale_zoo, "HANGING", COUNT)
    monkeypatch.setattr(scale_zoo, "KILLING", COUNT)
    monkeypatch.setattr(scale_run, "SECONDS", 2.0)


def test_every_model_is_converted_once_or_named_and_the_check_can_say_no(
    small: None, tmp_path: Path
) -> None:
    """Only here are hanging models, killed drivers and shards met in one run."""
    package = scale_zoo.vendor(tmp_path / "vendor")
    source = scale_zoo.write(tmp_path / "zoo", COUNT)
    to, told = Folder(tmp_path / "made"), tmp_path / "told"
    batch = scale_run.Batch(source, to, COUNT, package, told, shards=2, workers=1)
    found = scale_run.killed(batch, "shard", kills=1, seed=1)
    assert found.wrong == []
    assert found.drivers_killed
    assert {name: found.fates[name] for name in ("invalid", "timeout", "crashed")} == {
        "invalid": 4, "timeout": 1, "crashed": 1,
    }  # fmt: skip
    assert "| shard | 40 |" in scale.line(found)

    rows = batch.rows(1).read_text().splitlines()
    batch.rows(1).write_text("\n".join([*rows, rows[0]]))
    first, second, *_ = (to.path / name for name, _ in to.models())
    first.write_bytes(second.read_bytes())
    second.unlink()
    scale_run.check(batch, found)
    told = Counter(word for sentence in found.wrong for word in ("named", "holds", "result is False")
                   if word in sentence)  # fmt: skip
    assert told == {"named": 1, "holds": 1, "result is False": 1}


def test_the_models_of_a_zoo_differ_and_the_bad_ones_are_few() -> None:
    found = scale_zoo.bases()
    assert len(found.examples) > 2000
    assert len({scale_zoo.made(found, number) for number in range(50)}) == 50
    assert scale_zoo.made(found, 7) == scale_zoo.made(found, 7)
    text = "(float[n,3] x, int64[k] s) => (float[a,b] y) { y = Reshape(x, s) }"
    for seed in range(20):
        given = model(text, 13)
        scale_zoo.resize(given, random.Random(seed))
        x, s = (one.type.tensor_type.shape.dim[0] for one in given.graph.input)
        assert x.dim_value > 0
        assert s.dim_param == "k"  # nine sizes would contradict the rank of y
    assert Counter(map(scale_zoo.deed, range(10_000))) == {
        "": 9986, "broken": 10, "hangs": 2, "kills": 2,
    }  # fmt: skip
    assert "| 1,000,000 | 0.12 | 1 |" in scale.calculated(100.0)


def test_a_bucket_counts_its_models_and_gives_them_back() -> None:
    pytest.importorskip("moto.server", reason="the server that tests use is not installed")
    server = Server()
    try:
        place = Bucket(server.client, "made")
        for name in ("00000/m1.onnx", "00000/m2.onnx", ".opshift/marks/m1.onnx", "00000/m1.txt"):
            place.put(name, name.encode())
        assert place.count() == 2
        assert dict(place.models())["00000/m2.onnx"] == b"00000/m2.onnx"
    finally:
        server.close()
