# SPDX-License-Identifier: Apache-2.0
"""Makes the call of a case, and judges how the call ends."""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
import onnx.inliner
import onnx.shape_inference
import opshift
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, checker, numpy_helper
from opshift import BadDestination, BadTarget, InvalidModel, Refused
from opshift.convert.legal import inferred_part
from opshift.look import accepts, info
from opshift.protos import unknown_sizes

from tools.fuzz.case import OTHER, Case, FuzzCall

ANSWERS = (BadDestination, BadTarget, InvalidModel, Refused)
# Errors that runtimes ignore; a conversion keeps their cause in the model.
KEPT = (
    "deprecated", "No Op registered", "No opset", "external data", "Data of TensorProto",
    "Field 'shape' of 'type' is required", "Field 'type' of 'value_info' is required",
)  # fmt: skip
# A function keeps its own imports if no version is requested.
OWN_VERSIONS = "is not compatible with the version imported by model"
INFERENCE = "[ShapeInferenceError] Inference error(s): "
UNKNOWN = ("instead is null", "was 0")  # types that inference cannot know, as after Cast-1
# Errors that opshift does not look for in memory: large payloads are not copied, files not read.
UNMEASURED = ("raw_data size", "filesystem error")
PATIENCE = 60.0  # seconds of processor time, so that a busy machine makes no difference
SECRET = b"not the model's to read" * 300


class BrokenPromise(Exception):  # noqa: N818 - the fuzzer searches for it
    """A call broke a promise of the API."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended: a kind for counting, a text, and the code location of a finding."""

    kind: str
    detail: str = ""
    where: str = ""
    trace: str = ""

    @property
    def is_finding(self) -> bool:
        return self.kind == "FINDING"

    def resembles(self, other: Ending) -> bool:
        """Returns whether both findings have the same text and code location."""
        return (self.where, self.detail[:70]) == (other.where, other.detail[:70])

    def digest(self) -> str:
        """Returns a digest of the answer, for comparing runs."""
        return hashlib.sha256(f"{self.kind} {self.detail}".encode(errors="replace")).hexdigest()


def judge(case: Case, scratch: str | None = None) -> Ending:
    """Runs a case in a folder of its own, next to a file that it must not read."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=scratch) as folder:
        root = Path(folder)
        lay_out(case, root)
        here = os.getcwd()
        os.chdir(root)
        try:
            ending = _judge(case)
        finally:
            os.chdir(here)
        # The answer must not depend on the name of the folder.
        return replace(ending, detail=ending.detail.replace(folder, ""))


def lay_out(case: Case, root: Path) -> None:
    """Writes the model, its data, an empty folder, and a secret that the call must not read."""
    (root / "work").mkdir()
    (root / "other").mkdir()
    (root / "secret").write_bytes(SECRET)
    (root / "work" / "link").symlink_to("../secret")
    (root / "work" / "in.onnx").write_bytes(case.model)
    for name, data in case.files.items():
        (root / "work" / name).write_bytes(data)


def _judge(case: Case) -> Ending:
    before, began = tree(), time.process_time()
    try:
        kind, detail = _CALLS[case.call.function](case)
        _in_time(began)
    except ANSWERS as answer:
        kind, detail = type(answer).__name__, str(answer)
        try:
            _in_time(began)
            _well_said(answer)
            _nothing_changed(before)
        except BrokenPromise as broken:
            return _finding(broken)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return _finding(error)
    return Ending(kind, detail)


def _finding(error: BaseException) -> Ending:
    """Returns a finding, located at the innermost frame in the code of opshift."""
    frames = traceback.extract_tb(error.__traceback__)
    frames_of_opshift = [
        f for f in frames if "opshift" in Path(f.filename).parts[-3:-1] or "adapters" in f.filename
    ]
    last = frames_of_opshift[-1] if frames_of_opshift else frames[-1]
    where = f"{type(error).__name__} {Path(last.filename).name}:{last.name}"
    text = "".join(traceback.format_exception(error))
    return Ending("FINDING", f"{type(error).__name__}: {error}", where, text)


# ---------------------------------------------------------------- the calls


def _convert_version(case: Case) -> tuple[str, str]:
    call = case.call
    if call.place == "path":
        result = opshift.convert_version("work/in.onnx", call.target, **call.options)
        return sound(case, result, "work")
    try:
        model = ModelProto.FromString(case.model)
    except DecodeError:
        return "unreadable", ""
    before = model.SerializeToString(deterministic=True)
    try:
        result = opshift.convert_version(
            model, call.target, inplace=call.place == "inplace", **call.options
        )
    except ANSWERS:
        if model.SerializeToString(deterministic=True) != before:
            raise BrokenPromise("a conversion that failed changed the model") from None
        raise
    if call.place == "object" and model.SerializeToString(deterministic=True) != before:
        raise BrokenPromise("the caller's model was changed")
    if (result is model) != (call.place == "inplace"):
        raise BrokenPromise("the result contradicts the option inplace")
    return sound(case, result, "")


def _convert_file(case: Case) -> tuple[str, str]:
    call = case.call
    before, weights = tree(), _weights("work/in.onnx")
    target = {"beside": "work/out.onnx", "elsewhere": "other/out.onnx", "in place": "work/in.onnx"}
    result = target[call.place]
    where = {"in_place": True} if call.place == "in place" else {}
    report = opshift.convert_file("work/in.onnx", result, call.target, **where, **call.options)
    after = tree()
    folder = os.path.dirname(result)
    may = {result, f"{result}.data", *(f"{folder}/{name}" for name in locations(case))}
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    if wrong := sorted(changed - may):
        raise BrokenPromise(f"files that are not the result were written: {wrong}")
    new = _weights(result)
    if weights is not None and new is None:
        raise BrokenPromise("initializers that were readable are unreadable in the result")
    if weights and new:
        free = read_by(case, {work.op for step in report.steps for work in step.rewritten})
        both = sorted(weights.keys() & new)
        lost = [name for name in both if not _kept(weights[name], new[name], call)]
        if lost := [name for name in lost if name not in free]:
            raise BrokenPromise(f"initializers have other values: {lost}")
    text = Path(result).read_bytes()
    if _ir_alone(case.call) and not is_readable(case.model):
        return "valid as it came", hashlib.sha256(text).hexdigest()
    return sound(case, ModelProto.FromString(text), folder)


def _asked(case: Case, ask: Callable[[Any], Any], kind: str = "answered") -> tuple[str, str]:
    """Runs a function that only reads; it must change no file, and its result must be printable."""
    before = tree()
    try:
        at_path = case.call.place == "path"
        model = "work/in.onnx" if at_path else ModelProto.FromString(case.model)
    except DecodeError:
        return "unreadable", ""
    answer = ask(model)
    _nothing_changed(before)
    if not isinstance(model, str) and model != ModelProto.FromString(case.model):
        raise BrokenPromise(f"{case.call.function} changed the model")
    return kind, f"{answer}\n{json.dumps(answer.as_dict(), sort_keys=True)}"


def _check(case: Case) -> tuple[str, str]:
    def ask(model: Any) -> opshift.Findings:
        findings = opshift.check(model)
        if several := [finding.text for finding in findings.found if "\n" in finding.text.strip()]:
            raise BrokenPromise(f"a finding is not one sentence: {several[0]!r}")
        return findings

    return _asked(case, ask)


_CALLS: dict[str, Callable[[Case], tuple[str, str]]] = {
    "convert_version": _convert_version,
    "modernize": _convert_version,
    "convert_file": _convert_file,
    "plan": lambda case: _asked(
        case, lambda model: opshift.plan(model, case.call.target, **case.call.options), "planned"
    ),
    "check": _check,
    "diff": lambda case: _asked(case, lambda model: opshift.diff(model, f"work/{OTHER}")),
    "lowest": lambda case: _asked(case, opshift.lowest_versions),
    "accepts": lambda case: _asked(case, lambda model: accepts.accepts(model, case.call.target)),
    "targets": lambda case: _asked(case, lambda model: accepts.survey(model, [case.call.target])),
    "info": lambda case: _asked(case, info.info),
}


# ---------------------------------------------------------------- promises


def tree() -> dict[str, Any]:
    """Returns every file in the current folder, with its bytes."""
    state: dict[str, Any] = {}
    for folder, folders, files in os.walk("."):
        for name in (*folders, *files):
            path = os.path.normpath(os.path.join(folder, name))
            link = os.path.islink(path)
            plain = os.path.isfile(path) and not link
            state[path] = Path(path).read_bytes() if plain else os.readlink(path) if link else None
    return state


def _in_time(began: float) -> None:
    took = time.process_time() - began
    if took > PATIENCE:
        raise BrokenPromise(f"the call took over {PATIENCE:.0f} s of processor time ({took:.0f})")


def _nothing_changed(before: dict[str, Any]) -> None:
    after = tree()
    if after != before:
        names = sorted(name for name in before | after if before.get(name) != after.get(name))
        raise BrokenPromise(f"the call has no result, but files changed: {names}")


def _well_said(answer: Exception) -> None:
    """Raises BrokenPromise unless the error message is one sentence."""
    text = str(answer)
    if not text.strip() or (not isinstance(answer, Refused) and "\n" in text):
        raise BrokenPromise(f"a message is not one sentence: {text!r}")


def locations(case: Case) -> set[str]:
    """Returns the files of the model's external data, even if a tensor contradicts them."""
    from opshift.model.walk import tensors

    if not is_readable(case.model):
        return set()
    all_tensors = tensors(ModelProto.FromString(case.model))
    external = (tensor for tensor in all_tensors if tensor.data_location == TensorProto.EXTERNAL)
    entries = (entry for tensor in external for entry in tensor.external_data)
    return {entry.value for entry in entries if entry.key == "location"}


def read_by(case: Case, operators: set[str]) -> set[str]:
    """Returns the inputs of nodes of these operators; conversions may change weights at them."""
    from opshift.model.walk import nodes_in

    nodes = nodes_in(ModelProto.FromString(case.model).graph) if operators else ()
    return {name for node in nodes if node.op_type in operators for name in node.input}


def is_readable(text: bytes) -> bool:
    """Returns whether protobuf can parse the bytes as a model."""
    try:
        ModelProto.FromString(text)
    except DecodeError:
        return False
    return True


def sound(case: Case, result: ModelProto, folder: str) -> tuple[str, str]:
    """Raises if a result does not fit the request; returns its validity and a digest."""
    text = result.SerializeToString(deterministic=True)
    if ModelProto.FromString(text) != result:
        raise BrokenPromise("the result changes when it is written and read")
    _at_its_target(case.call, result)
    source = ModelProto.FromString(case.model)
    if [v.name for v in result.graph.output] != [v.name for v in source.graph.output]:
        raise BrokenPromise("the outputs have other names")
    return _checked(case, folder, text), hashlib.sha256(text).hexdigest()


def _at_its_target(call: FuzzCall, result: ModelProto) -> None:
    imported = [entry.version for entry in result.opset_import if entry.domain in ("", "ai.onnx")]
    wanted = call.target.get("") if isinstance(call.target, dict) else call.target
    if isinstance(wanted, int) and imported and set(imported) != {wanted}:
        raise BrokenPromise(f"{wanted} was requested, but the result imports {imported}")
    ir = call.options.get("ir_version")
    if isinstance(ir, int) and result.ir_version != ir:
        raise BrokenPromise(f"IR {ir} was requested, but the result has {result.ir_version}")


def _checked(case: Case, folder: str, text: bytes) -> str:
    """Returns the validity of a result; the checker may reject only content of the source."""
    error = objection(text, folder)
    kept = any(part in error for part in KEPT) or _ir_alone(case.call)
    kept |= case.call.target is None and OWN_VERSIONS in error
    kept |= case.call.place in ("object", "inplace") and any(part in error for part in UNMEASURED)
    if error and not (kept and objection(case.model, "work")):
        raise BrokenPromise(f"the checker rejects the result: {error}")
    if error:
        return "valid as it came"
    error = _in_a_child(text, folder)
    if not error:
        return "valid"
    if not any(_in_a_child(source, "work") for source in _sources(case.model, text)):
        raise BrokenPromise(f"inference rejects the result: {error}")
    return "valid"


def _sources(source: bytes, result: bytes) -> Iterator[bytes]:
    """Yields the source with all nodes or those inferred, with more types, without functions."""
    yield source
    yield inferred_part.inferred_part(ModelProto.FromString(source)).SerializeToString()
    yield _typed(source, result)
    # Inference takes a call of a function with an operator's name for a node of this operator.
    inlined = onnx.inliner.inline_local_functions(ModelProto.FromString(source))
    yield inlined.SerializeToString()


def _typed(source: bytes, result: bytes) -> bytes:
    """Adds types that inference finds in the result to the source, if the source lacks them.

    Equal values have equal types, so the source is invalid if it contradicts an added type.
    """
    model = ModelProto.FromString(source)
    typed = {value.name for value in model.graph.value_info}
    typed |= {value.name for value in (*model.graph.input, *model.graph.output)}
    inferred = onnx.shape_inference.infer_shapes(ModelProto.FromString(result), data_prop=True)
    untyped = [value for value in inferred.graph.value_info if value.name not in typed]
    model.graph.value_info.extend(untyped)
    return bytes(model.SerializeToString())


def _in_a_child(text: bytes, folder: str) -> str:
    """Returns the error of the full check, in a child because onnx's inference may crash.

    A size of -1 means an unknown size in every runtime, but inference compares it as a number.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        faulthandler.disable()  # the exit code is enough; a dump would look like a failure
        os.close(reader)
        with os.fdopen(writer, "w", errors="replace") as pipe:
            pipe.write(objection(unknown_sizes.unknown(text), folder, full=True))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, errors="replace") as said:
        pipe = said.read()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return pipe if not ended else f"onnx's inference ended with exit code {ended}"


def _ir_alone(call: FuzzCall) -> bool:
    """Returns whether only the IR version changes; then most of the model is not checked."""
    return call.target is None and "minimal" not in call.options and "ir_version" in call.options


def objection(text: bytes, folder: str, *, full: bool = False) -> str:
    """Returns the checker's error about a model, from a file because of its external data."""
    path = os.path.join(folder or "work", ".checked.onnx")
    with open(path, "wb") as file:
        file.write(text)
    try:
        checker.check_model(path, full_check=full)
    except onnx.shape_inference.InferenceError as error:
        lines = str(error).removeprefix(INFERENCE).splitlines()
        return next((line for line in lines if line and not line.endswith(UNKNOWN)), "")
    except Exception as error:
        return str(error).strip() or type(error).__name__
    finally:
        os.unlink(path)
    return ""


def _kept(before: tuple[str, ...], after: tuple[str, ...], call: FuzzCall) -> bool:
    """Returns whether a weight is unchanged, or has a wider type because the IR lacks its type."""
    from opshift.opsets.elements import ELEMENTS

    narrow = {row.ml_dtypes for row in ELEMENTS.values() if row.ml_dtypes}
    wider = "ir_version" in call.options and before[0] in narrow
    return before[1:] == after[1:] and (wider or before[0] == after[0])


def _weights(path: str) -> dict[str, tuple[str, ...]] | None:
    """Returns type, shape and numbers of every initializer; None if one is unreadable."""
    try:
        model = onnx.load(path)
        arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    except Exception:  # onnx raises many types of errors for broken files
        return None
    return {name: (str(a.dtype), str(a.shape), repr(a.tolist())) for name, a in arrays.items()}
