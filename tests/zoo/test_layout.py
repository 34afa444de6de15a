# SPDX-License-Identifier: Apache-2.0
"""The names of results are planned; models with equal names are converted, or refused."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper
from opshift.errors import BadDestination
from opshift.zoo import ModelLimits, migrate
from opshift.zoo.layout import Layout, refused
from opshift.zoo.migrate import local_engine
from pairs import model, weight


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def save(path: Path, seed: int, location: str = "", offset: int = 0) -> Path:
    return put(path, model(location, offset, seed=seed).SerializeToString())


def run(source, dst, **options):
    """Returns the outcome of each model, by name."""
    heard = {}
    migrate(source, dst, 13, engine=local_engine(1, ModelLimits(60, 1024)),
            heard=lambda _, outcome: heard.__setitem__(outcome.name, outcome), **options)  # fmt: skip
    return heard


def weight_of(path: Path) -> bytes:
    loaded = onnx.load(path)
    assert loaded.opset_import[0].version == 13
    return numpy_helper.to_array(loaded.graph.initializer[0]).tobytes()


def test_a_model_that_is_the_data_of_another(tmp_path):
    raw = model(seed=1).SerializeToString()
    put(tmp_path / "s" / "b.onnx", raw)
    save(tmp_path / "s" / "a.onnx", 1, "b.onnx", raw.find(weight(1)))
    heard = run(tmp_path / "s", tmp_path / "d")
    assert {name: one.fate.value for name, one in heard.items()} == {"a.onnx": "lost", "b.onnx": "ok"}  # fmt: skip
    assert "would have the name of the result of another model" in heard["a.onnx"].detail
    assert not (tmp_path / "d" / "a.onnx").exists()
    heard = run(tmp_path / "s", tmp_path / "d", external="one-file")
    assert {outcome.fate.value for outcome in heard.values()} == {"ok"}
    assert weight_of(tmp_path / "d" / "a.onnx") == weight(1)


def test_two_models_with_one_data_file(tmp_path):
    put(tmp_path / "s" / "w.bin", weight(1))
    save(tmp_path / "s" / "a.onnx", 1, "w.bin")
    save(tmp_path / "s" / "b.onnx", 1, "w.bin")
    assert {outcome.fate.value for outcome in run(tmp_path / "s", tmp_path / "d").values()} == {
        "ok"
    }
    assert {weight_of(tmp_path / "d" / f"{name}.onnx") for name in "ab"} == {weight(1)}


def test_two_data_files_that_would_have_one_name(tmp_path):
    """A list may contain models of two folders whose data files have equal names."""
    pairs = []
    for seed, folder in enumerate(("one", "two")):
        put(tmp_path / folder / "w.bin", weight(seed))
        path = save(tmp_path / folder / f"{folder}.onnx", seed, "w.bin")
        pairs.append((f"f/{folder}.onnx", str(path)))
    pairs.append(("f/alone.onnx", str(save(tmp_path / "three" / "alone.onnx", 3))))
    why = refused(pairs, str(tmp_path / "d"))
    assert set(why) == {"f/one.onnx", "f/two.onnx"}
    assert all("'w.bin' would share its name with another file" in text for text in why.values())


def test_models_in_the_folder_of_our_own_files(tmp_path):
    save(tmp_path / "s" / ".opshift" / "marks" / "a.onnx", 1)
    save(tmp_path / "s" / "b.onnx", 2, ".opshift/w.bin")
    put(tmp_path / "s" / ".opshift" / "w.bin", weight(2))
    save(tmp_path / "s" / "c.onnx", 3)
    heard = run(tmp_path / "s", tmp_path / "d")
    assert {name: one.fate.value for name, one in heard.items()} == {
        ".opshift/marks/a.onnx": "lost", "b.onnx": "lost", "c.onnx": "ok"
    }  # fmt: skip
    for name in (".opshift/marks/a.onnx", "b.onnx"):
        assert "where opshift keeps its own files" in heard[name].detail


def test_a_folder_that_would_have_the_name_of_a_result(tmp_path):
    pairs = [("a.onnx", str(tmp_path / "a.onnx")), ("a.onnx/b.onnx", str(tmp_path / "b.onnx"))]
    why = refused(pairs, str(tmp_path / "d"))
    assert set(why) == {"a.onnx/b.onnx"}
    assert "the same name as the result 'a.onnx'" in why["a.onnx/b.onnx"]


def test_results_around_their_sources(tmp_path):
    save(tmp_path / "zoo" / "in" / "in" / "a.onnx", 1)
    save(tmp_path / "zoo" / "in" / "a.onnx", 2)
    before = (tmp_path / "zoo" / "in" / "a.onnx").read_bytes()
    heard = run(tmp_path / "zoo" / "in", tmp_path / "zoo")
    assert (tmp_path / "zoo" / "in" / "a.onnx").read_bytes() == before
    assert heard["in/a.onnx"].fate.value == "lost"
    assert "would overwrite a model of this run" in heard["in/a.onnx"].detail
    assert weight_of(tmp_path / "zoo" / "a.onnx") == weight(2)


def test_a_result_that_would_replace_the_data_of_a_source(tmp_path):
    put(tmp_path / "s" / "d" / "b.onnx", weight(1))
    save(tmp_path / "s" / "a.onnx", 1, "d/b.onnx")
    save(tmp_path / "s" / "b.onnx", 2)
    heard = run(tmp_path / "s", tmp_path / "s" / "d")
    assert (tmp_path / "s" / "d" / "b.onnx").read_bytes() == weight(1)
    assert "would overwrite a data file" in heard["b.onnx"].detail


def test_a_link_among_the_results_is_not_followed(tmp_path):
    source = save(tmp_path / "s" / "a.onnx", 1)
    save(tmp_path / "s" / "b.onnx", 2)
    other = save(tmp_path / "elsewhere.onnx", 3)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.onnx").symlink_to(source)
    (tmp_path / "d" / "b.onnx").symlink_to(other)
    before = source.read_bytes(), other.read_bytes()
    heard = run(tmp_path / "s", tmp_path / "d")
    assert (source.read_bytes(), other.read_bytes()) == before
    assert {outcome.fate.value for outcome in heard.values()} == {"lost"}
    assert "through a link" in heard["b.onnx"].detail


@pytest.mark.parametrize("seed", range(12))
def test_any_zoo_keeps_its_sources_and_has_the_right_weights(seed, tmp_path):
    chance = random.Random(seed)
    source, names, made = tmp_path / "s", ["a.onnx", "b.onnx", "sub/a.onnx", "sub/c.onnx"], {}
    dst = chance.choice([tmp_path / "d", source / "d", source / "sub" / "d"])
    for number, name in enumerate(names):
        location = chance.choice(["", "", "w.bin", "a.onnx", "x/w.onnx", "d/b.onnx", f"{Path(name).name}.data"])  # fmt: skip
        path, offset = source / name, 0
        if not location or (path.parent / location == path):
            save(path, number)
            made[name] = weight(number)
            continue
        data = path.parent / location
        if data.exists():
            held = data.read_bytes()
            offset = len(held)
            put(data, held + weight(number))
            if location.endswith("a.onnx"):
                continue  # a model may not have a tail
        else:
            put(data, weight(number))
        save(path, number, location, offset)
        made[name] = weight(number)
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    heard = run(source, dst, external=chance.choice(["copy", "one-file", "inline"]))
    assert {path: path.read_bytes() for path in before} == before
    for name, one in heard.items():
        if one.fate.value == "ok" and name in made:
            assert weight_of(dst / name) == made[name], name
        else:
            assert one.detail


def test_a_link_without_a_file_is_a_lost_model_and_stops_no_other(tmp_path):
    save(tmp_path / "s" / "a.onnx", 1)
    (tmp_path / "s" / "circle.onnx").symlink_to("circle.onnx")
    (tmp_path / "s" / "gone.onnx").symlink_to("nowhere")
    heard = run(tmp_path / "s", tmp_path / "d")
    fates = {name: outcome.fate.value for name, outcome in heard.items()}
    assert fates == {"a.onnx": "ok", "circle.onnx": "lost", "gone.onnx": "lost"}


@pytest.mark.parametrize("home", ["zoo", "s3://bucket/zoo"])
def test_a_data_file_may_not_be_a_result_or_one_of_our_own_files(home):
    """A location may lead out of the folder of its model, but not to one of these files."""
    layout = Layout.of([("a.onnx", ""), ("sub/b.onnx", "")], home)
    layout.require_free(f"{home}/sub/b.onnx", ["w.bin", "a.onnx", "../w.bin"])
    for location in ("b.onnx", "../a.onnx", "../.opshift/w.bin", ".opshift"):
        with pytest.raises(BadDestination):
            layout.require_free(f"{home}/sub/b.onnx", ["w.bin", location])
    Layout().require_free("b.onnx", [".opshift/w.bin"])
