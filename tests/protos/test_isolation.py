# SPDX-License-Identifier: Apache-2.0
"""In the isolated mode no file of any content ends or hangs the caller."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import opshift
import pytest
from onnx import ModelProto
from opshift.author import registry, safe_inference
from opshift.author.traits import FatalSizes, Fragile, Illegal, Shrinks
from opshift.isolation_default import VARIABLE, Isolation, set_default, usual
from opshift.look import accepts
from opshift.protos import isolation, onnx_checker, onnx_process, shape_inference
from opshift.protos.onnx_calls import OnnxEnded
from text_models import model

from tools.fuzz import case as fuzz_case
from tools.fuzz import seeds

HANGS = '(float[2,3] x) => (float[a] y) { y = Einsum<equation="i.j->i">(x) }'
ENDS = "(float[1,3,4,4] x) => (float y) <int64[1] s = {0}, int64[1] e = {-1}, int64[1] a = {3}> { v = MaxPool<kernel_shape=[100,100]>(x) y = Slice(v, s, e, a) }"
GOOD = "(float[2,3] x) => (float[2,3] y) { y = Softmax<axis=1>(x) }"
VERBS: dict[str, Callable[..., Any]] = {
    "convert": lambda one, **how: opshift.convert(one, 13, **how),
    "convert_version": lambda one, **how: opshift.convert_version(one, 13, **how),
    "plan": lambda one, **how: opshift.plan(one, 13, **how),
    "lowest": opshift.lowest_versions,
    "check": opshift.check,
    "diff": lambda one, **how: opshift.diff(one, one, **how),
    "accepts": lambda one, **how: accepts.accepts(one, "onnxruntime==1.10", **how),
    "survey": lambda one, **how: accepts.survey(one, ["onnxruntime==1.10"], **how),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(isolation, "SECONDS", 1.0)
    monkeypatch.delenv(VARIABLE, raising=False)
    yield
    onnx_process.close()


@pytest.fixture
def no_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes what opshift declares about onnx's faults, as if all of them were new."""
    branch = registry.default().branch()
    for kind in (Fragile, FatalSizes, Illegal, Shrinks):
        for key in [*branch.traits(kind)]:
            del branch.traits(kind)[key]
    monkeypatch.setattr(registry, "default", lambda: branch)


def test_a_call_that_does_not_end_is_ended() -> None:
    with isolation.isolated(requested=True):
        with pytest.raises(OnnxEnded, match="the inference of onnx did not finish within 1 s"):
            shape_inference.infer_shapes(model(HANGS))
        with pytest.raises(OnnxEnded, match="onnx is not called for this model again"):
            shape_inference.infer_shapes(model(GOOD))
    with isolation.isolated(requested=True):  # the next verb begins anew
        assert shape_inference.infer_shapes(model(GOOD)).graph.output


def test_a_call_that_ends_its_process_is_an_error() -> None:
    with isolation.isolated(requested=True):
        for _ in range(2):
            with pytest.raises(OnnxEnded, match=r"the inference of onnx crashed its process \(SIG"):
                shape_inference.infer_shapes(model(ENDS))
        assert shape_inference.infer_shapes(model(GOOD)).graph.output


def test_a_verb_ends_only_so_many_children() -> None:
    with isolation.isolated(requested=True):
        for _ in range(isolation.MOST_DEATHS):
            with pytest.raises(OnnxEnded):
                shape_inference.infer_shapes(model(ENDS))
        with pytest.raises(OnnxEnded, match="not called for this model again"):
            shape_inference.infer_shapes(model(GOOD))


@pytest.mark.usefixtures("warm_children")
@pytest.mark.usefixtures("no_guards")
@pytest.mark.parametrize("text", [HANGS, ENDS], ids=["hangs", "ends"])
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_answers_although_no_fault_is_known(
    verb: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new fault of onnx ends only a child, and the caller gets a message."""
    monkeypatch.setattr(isolation, "SECONDS", 0.4)  # any answer counts, also one that came late
    try:
        told = str(VERBS[verb](model(text), isolate=True))
    except opshift.OpshiftError as error:
        told = str(error)
    assert told


@pytest.mark.usefixtures("no_guards")
def test_check_names_the_end_of_the_process() -> None:
    findings = opshift.check(model(ENDS), isolate=True)
    assert any("crashed its process" in finding.text for finding in findings.found), findings


def test_any_bytes_of_a_model_are_answered_and_as_without_a_child() -> None:
    """A sample of broken models, which `tools.fuzz run` makes in any number."""
    pool = seeds.pool(("frozen", "adapters"))
    for number in range(60):
        made = fuzz_case.make(pool, number)
        found = []
        for isolate in (True, False):
            try:
                with isolation.isolated(isolate):
                    onnx_checker.check_model(made.model)
                found.append("")
            except safe_inference.COMPLAINTS as error:  # from a child, perhaps of another type
                undecodable = "codec can't decode" in str(error)
                found.append("text" if undecodable else f"{type(error).__name__} {error}")
            except UnicodeDecodeError:
                found.append("text")
        assert found[0] == found[1]


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "(float[N,4] x) => (float[N,2] y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {1}> { y = Slice(x, s, e, a) }",
    ],
)
def test_answers_are_the_same_in_a_child(text: str) -> None:
    for verb in VERBS.values():
        here, there = (verb(model(text), isolate=one) for one in (False, True))
        assert str(here) == str(there)
        if isinstance(here, ModelProto):
            assert here == there


def test_errors_have_the_class_that_they_have_without_a_child() -> None:
    bad = model("(float[2,3] x) => (float[2,3] y) { y = Softmax<axis=9>(x) }", 13)
    for call in (
        lambda: shape_inference.infer_shapes(bad, strict_mode=True),
        lambda: onnx_checker.check_model(b"nonsense"),
    ):
        kinds = []
        for isolate in (True, False):
            with isolation.isolated(isolate), pytest.raises(Exception) as caught:  # noqa: PT011
                call()
            kinds.append((caught.type, str(caught.value)))
        assert kinds[0] == kinds[1]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("", Isolation.NEVER), ("risky", Isolation.RISKY), ("always", Isolation.ALWAYS)],
)
def test_the_environment_decides(
    words: str, wanted: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, words)
    assert usual() is wanted
    assert isolation.uses_child() == (wanted is Isolation.ALWAYS)
    assert isolation.uses_child(risky=True) == (wanted is not Isolation.NEVER)
    with isolation.isolated(requested=False):
        assert not isolation.uses_child(risky=True)
    monkeypatch.setenv(VARIABLE, "perhaps")
    with pytest.raises(ValueError, match="set it to one of never, risky, always"):
        usual()


def test_the_environment_comes_before_the_default_of_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_default(Isolation.RISKY)
    try:
        assert usual() is Isolation.RISKY
        monkeypatch.setenv(VARIABLE, "never")
        assert usual() is Isolation.NEVER
    finally:
        set_default(Isolation.NEVER)


def test_nothing_of_the_working_folder_runs_in_a_child(tmp_path: Path) -> None:
    for name in ("json", "struct", "signal", "google", "onnx", "opshift", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('from the working folder')")
    code = "import sys; sys.path[:] = [p for p in sys.path if p]; import onnx, opshift; print(opshift.check(sys.argv[1], isolate=True))"
    path = tmp_path / "good.onnx"
    onnx.save(model(GOOD), path)
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "Nothing is wrong.", done.stderr


def test_threads_have_children_of_their_own() -> None:
    found: list[Any] = []

    def work() -> None:
        with isolation.isolated(requested=True):
            for _ in range(20):
                found.append(len(shape_inference.infer_shapes(model(GOOD)).graph.output))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 80
    assert len(onnx_process._idle) <= onnx_process.MOST_IDLE


def test_a_child_that_answers_nonsense_has_ended() -> None:
    child = onnx_process.Child()
    child.process.kill()
    child.process.communicate()
    child.process = subprocess.Popen(
        [sys.executable, "-c", "print('nonsense' * 9)"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with pytest.raises(OnnxEnded):
        child.ask("check_model", [b"", False], 1.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_uses_no_child_of_its_parent() -> None:
    with isolation.isolated(requested=True):
        shape_inference.infer_shapes(model(GOOD))
    (waiting,) = onnx_process._idle
    pid = os.fork()
    if not pid:
        os._exit(onnx_process._idle_child() is not None)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert waiting.process.poll() is None
