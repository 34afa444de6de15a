# SPDX-License-Identifier: Apache-2.0
"""A whole batch: the models, the results, the messages, and a second run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import numpy_helper
from opshift import BadTarget, InvalidModel, Request, codes, convert_version
from opshift.cli import exit_codes as cli
from opshift.cli.entry import main
from opshift.errors import printable
from opshift.zoo import Fate, ModelLimits, marks, migrate, sources
from opshift.zoo.key import LARGE, found_beside, key_of
from opshift.zoo.migrate import ZooRun, local_engine, prepare
from opshift.zoo.outcome import Outcome
from opshift.zoo.sources import Shard
from pairs import load, save, weight
from zoos import ERF, await_result, model, zoo


def few():
    return local_engine(1, ModelLimits(60, 1024))


def fates(summary):
    return {fate.value: count for fate, count in summary.fates.items() if count}


def batch(*words):
    return CliRunner().invoke(main, ["batch", *map(str, words), "--workers", "1"])


@pytest.fixture
def mixed(tmp_path):
    folder = zoo(tmp_path / "src", 3)
    onnx.save(model(ERF, 13), folder / "erf.onnx")
    (folder / "junk.onnx").write_bytes(b"no model")
    return folder


def test_every_model_is_converted_or_named(mixed, tmp_path):
    heard = []
    summary = migrate(
        mixed, tmp_path / "dst", 8, engine=few(), heard=lambda _, outcome: heard.append(outcome)
    )
    assert fates(summary) == {"ok": 3, "refused": 1, "invalid": 1}
    assert (summary.left, summary.failures) == (0, 2)
    for path in mixed.rglob("m*.onnx"):
        made = (tmp_path / "dst" / path.relative_to(mixed)).read_bytes()
        assert made == convert_version(path, 8).SerializeToString(deterministic=True)
    refused = next(outcome for outcome in heard if outcome.fate is Fate.REFUSED)
    assert (refused.name, refused.why) == ("erf.onnx", refused.blockers[0].why)
    assert (refused.blockers[0].op, refused.blockers[0].boundary) == ("Erf", (9, 8))
    assert (refused.source, refused.result) == ({"": 13}, {"": 9})
    assert not (tmp_path / "dst" / "erf.onnx").exists()
    invalid = next(outcome for outcome in heard if outcome.fate is Fate.INVALID)
    assert codes.page(invalid.why)
    assert all(Outcome.from_dict(json.loads(json.dumps(o.as_dict()))) == o for o in heard)


def test_nothing_is_added_to_a_result_and_nothing_lost(mixed, tmp_path):
    migrate(mixed / "0", tmp_path / "dst", 13, engine=few())
    found = {str(p.relative_to(tmp_path / "dst")) for p in (tmp_path / "dst").rglob("*.*")}
    visible = {name for name in found if not name.startswith(".opshift")}
    assert visible == {"m0000.onnx"}
    assert not onnx.load(tmp_path / "dst" / "m0000.onnx").metadata_props


def test_a_second_run_does_nothing(mixed, tmp_path):
    dst = tmp_path / "dst"
    migrate(mixed, dst, 8, engine=few())
    before = {path: path.stat().st_mtime_ns for path in dst.rglob("*.onnx")}
    assert fates(migrate(mixed, dst, 8, engine=few())) == {
        "skipped": 3, "refused": 1, "invalid": 1
    }  # fmt: skip
    assert before == {path: path.stat().st_mtime_ns for path in dst.rglob("*.onnx")}


@pytest.mark.parametrize("lost", ["journal", "everything but the marks"])
def test_the_marks_tell_what_the_journal_forgot(mixed, tmp_path, lost):
    dst = tmp_path / "dst"
    migrate(mixed, dst, 8, engine=few())
    journal = dst / ".opshift" / "journal.sqlite"
    if lost == "journal":
        journal.unlink()
    else:
        journal.write_bytes(b"this is no database, however long one looks at it" * 100)
    assert fates(migrate(mixed, dst, 8, engine=few()))["skipped"] == 3


def test_what_changed_is_done_again_and_nothing_else(mixed, tmp_path):
    dst, names = tmp_path / "dst", ("0/m0000.onnx", "1/m0001.onnx", "2/m0002.onnx")

    def again(target=13):
        ended = {}
        migrate(mixed, dst, target, engine=few(), heard=lambda _, o: ended.update({o.name: o.fate}))
        return [ended[name].value for name in names]

    assert again() == ["ok", "ok", "ok"]
    onnx.save(model(name="other"), mixed / names[0])  # another source
    (dst / names[1]).write_bytes(b"damaged")
    assert again() == ["ok", "ok", "skipped"]
    assert onnx.load(dst / names[1]).opset_import[0].version == 13
    (dst / ".opshift" / "marks" / (names[2] + ".json")).write_text("{")
    assert again() == ["skipped", "skipped", "ok"]
    assert again(14) == ["ok", "ok", "ok"]  # another recipe
    assert again() == ["ok", "ok", "ok"]
    (dst / names[0]).unlink()
    assert again() == ["ok", "skipped", "skipped"]


def test_another_registry_makes_another_key(tmp_path):
    path = zoo(tmp_path, 1) / "0" / "m0000.onnx"
    recipe = prepare(Request.of(13), "copy")
    keys = {key_of(recipe.digest, [path])}
    asked = (Request.of(14), Request.of(13, allow_approximate=True))
    for change in ({"fingerprint": "x"}, *({"request": one} for one in asked)):
        keys.add(key_of(replace(recipe, **change).digest, [path]))
    path.write_bytes(path.read_bytes() + b"\x1a\x00")
    keys.add(key_of(recipe.digest, [path]))
    assert len(keys) == 5


def test_the_key_of_a_large_model_is_that_of_a_small_one(tmp_path):
    path = zoo(tmp_path, 1) / "0" / "m0000.onnx"
    for size in (LARGE - 1, LARGE):
        with found_beside("recipe", [path], size) as key:
            assert key() == key_of("recipe", [path])
    with pytest.raises(FileNotFoundError), found_beside("recipe", [tmp_path / "x"], LARGE) as key:
        key()


def test_external_data_travels_with_its_model(tmp_path):
    folder = tmp_path / "src" / "deep"
    folder.mkdir(parents=True)
    proto = model("(float[2000] x, float[2000] w) => (float[2000] y) { y = Add(x, w) }")
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(2000, np.float32), "w"))
    onnx.save(proto, folder / "m.onnx", save_as_external_data=True, location="m.data")
    dst = tmp_path / "dst"
    assert fates(migrate(tmp_path / "src", dst, 13, engine=few())) == {"ok": 1}
    assert onnx.load(dst / "deep" / "m.onnx").graph.initializer[0].raw_data
    (dst / "deep" / "m.data").unlink()
    assert fates(migrate(tmp_path / "src", dst, 13, engine=few())) == {"ok": 1}
    assert fates(migrate(tmp_path / "src", dst, 13, engine=few())) == {"skipped": 1}
    (folder / "m.data").write_bytes(bytes(8000))
    summary = migrate(tmp_path / "src", dst, 13, engine=few())
    assert 'remove it, or give `external="one-file"` or `external="inline"`' in str(summary)
    (dst / "deep" / "m.data").unlink()
    assert fates(migrate(tmp_path / "src", dst, 13, engine=few())) == {"ok": 1}


def test_a_domain_that_a_model_does_not_import_is_none_of_its_business(tmp_path):
    target = {"": 13, "ai.onnx.ml": 2}
    assert fates(migrate(zoo(tmp_path / "s", 1), tmp_path / "d", target, engine=few())) == {"ok": 1}


def test_shards_share_a_zoo_and_leave_nothing_out(tmp_path):
    names = [name for name, _ in sources.find(str(zoo(tmp_path, 200)))]
    parts = [{name for name in names if Shard(i, 3).has(name)} for i in (1, 2, 3)]
    assert sum(map(len, parts)) == 200
    assert set().union(*parts) == set(names)
    assert all(len(part) > 30 for part in parts)
    with pytest.raises(ValueError, match="1 <= I <= N"):
        Shard.read("0/3")


def test_models_are_found_below_a_folder_by_a_pattern_or_in_a_list(tmp_path):
    zoo(tmp_path, 12)
    (tmp_path / "list.txt").write_text("# two\n0/m0000.onnx\n\n1/m0011.onnx\n")

    def names(what, leave_out=""):
        return [name for name, _ in sources.find(str(what), leave_out)]

    assert len(names(tmp_path)) == 12
    assert len(names(tmp_path, str(tmp_path / "0"))) == 10
    assert names(tmp_path / "**" / "m001*.onnx") == ["0/m0010.onnx", "1/m0011.onnx"]
    assert names(tmp_path / "1" / "*.onnx") == ["m0001.onnx", "m0011.onnx"]
    assert names(tmp_path / "list.txt") == ["0/m0000.onnx", "1/m0011.onnx"]
    assert names(tmp_path / "0" / "m0000.onnx") == ["m0000.onnx"]
    for nothing in (tmp_path / "none", tmp_path / "*.none"):
        with pytest.raises(FileNotFoundError, match=r"no model|no such"):
            names(nothing)
    (tmp_path / "list.txt").write_text("../m0000.onnx\n")
    with pytest.raises(InvalidModel, match="is outside the folder of the models"):
        names(tmp_path / "list.txt")


def test_strange_names_arrive_whole_and_are_shown_escaped(tmp_path):
    strange = os.fsdecode(b"new\nline \xff <script>.onnx")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / strange).write_bytes(model().SerializeToString())
    (tmp_path / "src" / ("bad" + strange)).write_bytes(b"junk")
    text = batch(tmp_path / "src", tmp_path / "dst", "--to", "13").stdout
    assert (tmp_path / "dst" / strange).exists()
    assert printable("bad" + strange) in text
    assert fates(migrate(tmp_path / "src", tmp_path / "dst", 13, engine=few()))["skipped"] == 1


@pytest.mark.parametrize("letter", ["m", "é"])
@pytest.mark.parametrize("external", ["copy", "one-file"])
def test_a_name_of_any_length_gets_its_result_its_data_and_its_mark(letter, external, tmp_path):
    folder, most = tmp_path / "src", 255 - len(".onnx")
    for length in range(most - 20, most + 1):
        rest = length % len(letter.encode())
        name = letter * (length // len(letter.encode())) + "x" * rest + ".onnx"
        save(folder / name, f"{length}.bin", seed=length)
        assert length + 5 == len(os.fsencode(name))
    for fate in ("ok", "skipped"):
        summary = migrate(folder, tmp_path / "dst", 13, external=external, engine=few())
        assert fates(summary) == {fate: 21}
    for path in (tmp_path / "dst").glob("*.onnx"):
        assert load(path) == (13, weight(len(os.fsencode(path.stem))))


def test_sources_are_never_overwritten(tmp_path):
    folder = zoo(tmp_path, 1)
    with pytest.raises(BadTarget, match="the sources are in this folder"):
        migrate(folder, folder, 13)
    inside = migrate(folder, folder / "out", 13, engine=few())
    assert (inside.total, migrate(folder, folder / "out", 13, engine=few()).total) == (1, 1)


def test_what_a_killed_worker_left_is_swept_when_it_is_old(tmp_path):
    run = ZooRun.of(
        str(zoo(tmp_path / "s", 1)),
        str(tmp_path / "d"),
        prepare(Request.of(13), "copy"),
        Shard(),
    )
    (tmp_path / "d" / "0").mkdir(parents=True)
    tokens = ("0123456789ab-1", "0123456789ac-1")
    old, young = (tmp_path / "d" / "0" / f".opshift-{token}.tmp" for token in tokens)
    old.touch()
    young.touch()
    os.utime(old, (0, 0))
    run.sweep()
    assert (old.exists(), young.exists()) == (False, True)


@pytest.mark.parametrize("external", ["copy", "one-file"])
def test_a_run_lists_each_folder_of_results_once(external, tmp_path, monkeypatch):
    class Here:
        def run(self, fn, items):
            return map(fn, items)

    def pairs(seed):
        for name in "abc":
            save(tmp_path / "src" / f"{name}.onnx", f"{name}.bin", seed=seed)

    def counted(path=".", real=os.scandir):
        listed.append(os.path.realpath(path))
        return real(path)

    pairs(1)
    migrate(tmp_path / "src", tmp_path / "dst", 13, external=external, engine=Here())
    pairs(2)
    if external == "copy":
        for path in (tmp_path / "dst").glob("*.bin"):
            path.unlink()
    listed = []
    monkeypatch.setattr(os, "scandir", counted)
    monkeypatch.setattr(os, "listdir", lambda path=".": [one.name for one in counted(path)])
    again = migrate(tmp_path / "src", tmp_path / "dst", 14, external=external, engine=Here())
    assert fates(again) == {"ok": 3}
    assert listed.count(str(tmp_path / "dst")) == 1
    assert len(list((tmp_path / "dst").glob("*.*"))) == 6 + 1  # and .opshift
    assert all(load(tmp_path / "dst" / f"{name}.onnx") == (14, weight(2)) for name in "abc")


def test_two_runs_into_one_folder_leave_marks_that_are_true(tmp_path, monkeypatch):
    source, dst = zoo(tmp_path / "src", 1), tmp_path / "dst"
    stamps, nested = marks.stamps, []

    class Here:
        def run(self, fn, items):
            return map(fn, items)

    def run_to(target):
        return fates(migrate(source, dst, target, engine=Here()))

    def later(paths, folder):
        if folder.startswith(str(dst)) and not nested:  # the model is there, its mark is not
            nested.append(threading.Thread(target=run_to, args=(14,)))
            nested[0].start()
            nested[0].join(0.5)
        return stamps(paths, folder)

    monkeypatch.setattr(marks, "stamps", later)
    run_to(13)
    nested[0].join(60)
    assert onnx.load(dst / "0" / "m0000.onnx").opset_import[0].version == 14
    assert run_to(13) == {"ok": 1}
    assert onnx.load(dst / "0" / "m0000.onnx").opset_import[0].version == 13


def test_a_program_needs_no_guard_and_a_folder_for_temporary_files_may_have_a_long_path(tmp_path):
    program, long = tmp_path / "program.py", tmp_path / ("long" * 30)
    program.write_text(
        "from opshift.zoo import migrate\n"
        f"print(migrate({str(zoo(tmp_path / 'src', 3))!r}, {str(tmp_path / 'dst')!r}, 13))\n"
    )
    long.mkdir()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(long)}
    done = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True, timeout=60, check=True)  # fmt: skip
    assert done.stdout.splitlines() == ["3 models: 3 ok."]
    assert not list(long.iterdir())


def test_what_crashed_stays_out_until_it_is_asked_for_again(tmp_path):
    source, dst = zoo(tmp_path / "src", 1), tmp_path / "dst"
    recipe = prepare(Request.of(13), "copy")
    run = ZooRun.of(str(source), str(dst), recipe, Shard())

    class Falls:
        def run(self, fn, items):
            yield from (Outcome(item.name, Fate.CRASHED, "SIGSEGV") for item in items)

    with run.remembering() as journal:
        assert [o.fate for o in run.outcomes(Falls(), journal)] == [Fate.CRASHED]
    assert fates(migrate(source, dst, 13, engine=few())) == {"crashed": 1}
    assert fates(migrate(source, dst, 13, engine=few(), retry=True)) == {"ok": 1}


def test_the_command_counts_and_exits_with_a_meaning(mixed, tmp_path):
    done = batch(mixed, tmp_path / "dst", "--to", "8")
    assert done.exit_code == cli.REFUSED
    assert "example: erf.onnx" in done.stdout
    assert "5/5 done, 0 up to date, 1 refused, 1 failed" in done.stderr
    again = batch(mixed, tmp_path / "dst", "--to", "8", "--max-failures", "2", "--json")
    assert again.exit_code == cli.DONE
    raw = json.loads(again.stdout)
    assert (raw["kind"], raw["total"], raw["fates"]["skipped"]) == ("batch", 5, 3)
    assert {(one["fate"], one["count"]) for one in raw["reasons"]} == {
        ("refused", 1),
        ("invalid", 1),
    }


def test_a_dry_run_writes_nothing(mixed, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    done = batch(mixed, "--to", "8", "--dry-run", "--json")
    assert json.loads(done.stdout)["fates"]["ok"] == 3
    assert sorted(tmp_path.rglob("*")) == before


def test_a_runtime_is_a_target(mixed, tmp_path):
    page = tmp_path / "report.html"
    done = batch(mixed / "0", tmp_path / "dst", "--for", "onnxruntime==1.0", "--report", page)
    assert done.exit_code == cli.DONE
    assert onnx.load(tmp_path / "dst" / "m0000.onnx").opset_import[0].version == 11
    assert "<title>opshift batch: 1 model to onnxruntime==" in page.read_text()


@pytest.mark.parametrize(
    ("runtime", "accepted"), [("onnxruntime==1.10", "yes"), ("tensorrt==8.4", "not known")]
)
def test_a_batch_for_a_runtime_says_how_many_results_it_accepts(mixed, tmp_path, runtime, accepted):
    rows, page = tmp_path / "rows.jsonl", tmp_path / "report.html"
    words = ("--for", runtime, "--results", rows, "--report", page)
    done = batch(mixed / "0", tmp_path / "dst", *words)
    assert done.exit_code == cli.DONE
    assert [json.loads(line)["accepted"] for line in rows.read_text().splitlines()] == [accepted]
    doubt = f"It is not known whether {runtime} accepts 1 result;"
    assert (doubt in done.stdout) == (doubt in page.read_text()) == (accepted == "not known")
    raw = json.loads(batch(mixed / "0", tmp_path / "other", "--for", runtime, "--json").stdout)
    assert raw["accepted"] == {runtime: {accepted: 1}}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--to", "13"], "names no folder for the results"),
        (["d"], "names no version and no other goal"),
        (["d", "--for", "onnxruntim==1.16"], "no target is called"),
        (["d", "--to", "99"], "above"),
        ([__file__, "--to", "13"], "this is a file; give a folder for the results"),
        (["d", "--to", "13", "--shard", "4/3"], "1 <= I <= N"),
        (["d", "--to", "13", "--results", "none/rows.csv"], "there is no folder none"),
        (["d", "--to", "13", "--report", "none/page.html"], "there is no folder none"),
        ([f"{__file__}/d", "--to", "13"], "no result can be written to this folder: Not a dir"),
    ],
)
def test_bad_usage_is_one_sentence(tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    bad = batch(zoo(tmp_path / "src", 1), *words)
    assert bad.exit_code == cli.BAD_INPUT
    assert sentence in bad.stderr
    assert not os.path.exists("d")  # nothing was begun


@pytest.mark.parametrize("to_all", [True, False], ids=["to all processes", "to the driver"])
@pytest.mark.parametrize(
    "signals", [["SIGINT"], ["SIGTERM"], ["SIGHUP"], ["SIGINT", "SIGTERM"]], ids="+".join
)
def test_however_a_run_is_stopped_it_reports_its_models_and_says_how_to_go_on(
    signals, to_all, tmp_path
):
    source, dst, rows = zoo(tmp_path / "src", 300), tmp_path / "dst", tmp_path / "rows.jsonl"
    words = [sys.executable, "-m", "opshift", "batch", source, dst, "--to", "13", "--workers", "1"]
    words += ["--report", tmp_path / "zoo.html", "--results", rows, "--no-progress"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    driver = subprocess.Popen(
        words,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup ignores it
    )
    await_result(driver, dst)
    for name in signals:
        number = getattr(signal, name)
        # A terminal sends it to the workers as well, and so does Slurm.
        (os.killpg if to_all else os.kill)(driver.pid, number)
    out, err = driver.communicate(timeout=60)
    assert driver.returncode == cli.INTERRUPTED
    assert "run the same command again" in err
    assert "are not converted" in out
    assert "Traceback" not in err
    assert "failed" not in err
    assert "crashed" not in out
    done = [json.loads(line) for line in rows.read_text().splitlines()]
    assert len(done) < 300
    assert done or len(signals) > 1  # running models end at the first signal
    assert {row["outcome"] for row in done} <= {"ok"}
    assert (tmp_path / "zoo.html").read_text().endswith("</html>\n")
    left = [
        path for path in source.rglob("*.onnx") if not (dst / path.relative_to(source)).exists()
    ]
    for path in left[1:]:  # one is enough to see that the next run goes on
        path.unlink()
    again = json.loads(batch(source, dst, "--to", "13", "--json").stdout)["fates"]
    assert again["skipped"] >= len(done)
    assert again["ok"] >= 1


def test_without_progress_a_run_prints_none(mixed, tmp_path):
    done = batch(mixed, tmp_path / "dst", "--to", "8", "--no-progress")
    assert done.stderr == ""
    assert "5 models: 3 ok" in done.stdout
