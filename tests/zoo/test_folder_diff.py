# SPDX-License-Identifier: Apache-2.0
"""`opshift diff OLD_FOLDER NEW_FOLDER`: the advice for each model and for the collection."""

from __future__ import annotations

import json
import random

import onnx
from click.testing import CliRunner
from opshift import Level, diff
from opshift.cli.entry import main
from text_models import model

MODELS = {
    "plain": model("(float[2] x) => (float[2] y) { y = Relu(x) }"),
    "computes": model("(float[2] x) => (float[2] y) { y = Neg(x) }"),
    "offers": model("(float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Neg(x) }"),
    "breaks": model("(float[3] x) => (float[3] y) { y = Relu(x) }"),
}


def run(*words):
    return CliRunner().invoke(main, ["diff", *map(str, words)])


def test_the_whole_is_as_grave_as_its_gravest_model(tmp_path):
    """Compares random folders, in which each model has the level of its own comparison."""
    rng = random.Random(39)
    for number in range(30):
        folders = [tmp_path / f"{number}" / name for name in ("old", "new")]
        kept: list[dict[str, str]] = [{}, {}]
        for folder, models in zip(folders, kept, strict=True):
            for name in ("a", "b", "sub/c"):
                kind = rng.choice([*MODELS, None])
                path = folder / f"{name}.onnx"
                path.parent.mkdir(parents=True, exist_ok=True)
                if kind is not None:
                    onnx.save(MODELS[kind], path)
                    models[f"{name}.onnx"] = kind
        if not all(kept):
            continue
        wanted = {}
        for name in kept[0].keys() | kept[1].keys():
            old, new = (MODELS.get(one.get(name, "")) for one in kept)
            wanted[name] = (
                Level.MAJOR if new is None else Level.MINOR if old is None else diff(old, new).level
            )
        document = json.loads(run(*folders, "--json").stdout)
        assert {one["model"]: one["level"] for one in document["models"]} == {
            name: level.name for name, level in wanted.items()
        }
        assert document["level"] == max(wanted.values()).name
        assert all(one["advice"] for one in document["models"] if "the model" not in one["reason"])


def test_what_the_command_prints(tmp_path):
    for folder, kinds in (("old", ("plain", "plain")), ("new", ("breaks", "plain"))):
        (tmp_path / folder).mkdir()
        for name, kind in zip("ab", kinds, strict=True):
            onnx.save(MODELS[kind], tmp_path / folder / f"{name}.onnx")
    done = run(tmp_path / "old", tmp_path / "new")
    assert done.exit_code == 0
    assert done.stdout.startswith("MAJOR: users of the first folder must change")
    assert "a.onnx: MAJOR: the shape of input 'x' changed" in done.stdout
    assert "Advice: set the model version to 1." in done.stdout
    assert "b.onnx" not in done.stdout
    assert done.stdout.endswith("Advice: raise the MAJOR number of the collection's version.\n")
    (tmp_path / "new" / "b.onnx").write_bytes(b"no model")
    done = run(tmp_path / "old", tmp_path / "new")
    assert done.exit_code == 2
    assert "b.onnx: cannot be compared" in done.stdout
    assert done.stdout.startswith("MAJOR: ")  # whatever the other model changes
    (tmp_path / "new" / "a.onnx").write_bytes((tmp_path / "old" / "a.onnx").read_bytes())
    done = run(tmp_path / "old", tmp_path / "new")
    assert done.stdout.startswith("Not known: 1 model cannot be compared.")
    assert done.stdout.endswith("replace the models that cannot be compared, and compare again.\n")
    assert "is a folder and" in run(tmp_path / "old", tmp_path / "new" / "a.onnx").stderr
