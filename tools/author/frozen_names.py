# SPDX-License-Identifier: Apache-2.0
"""Freezes the names that callers of a release use, and the files of a vendor."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import onnx
import onnx.parser
from opshift import codes
from opshift.cli.entry import main

from tools.author import frozen_forms

MODULES = ("opshift", "opshift.verify", "opshift.zoo")
DOMAIN = "com.acme"
SET_1, SET_2, DATABASE, MODEL = "acme-1.onnxopset", "acme-2.onnxopset", "acme.bin", "acme.onnx"
TEXT = f"(float[2] x) => (float[2] y) {{ h = {DOMAIN}.Same(x) y = {DOMAIN}.Same(h) }}"
SIGNATURE = "\n\nSignature:\n  T: tensor(float)\n  input X: T\n  output Y: T\n"


def frozen() -> tuple[bytes, bytes]:
    """Returns all names of this release as JSON, and the files of a vendor in one archive."""
    with tempfile.TemporaryDirectory(prefix="opshift-") as name:
        folder = Path(name)
        frozen_forms.prepare(folder)
        ends = {key: _end(folder, words) for key, words in frozen_forms.COMMANDS.items()}
    names = {"python": python(), "options": options(), "codes": sorted(codes.names())}
    return json.dumps({**names, "exit_codes": ends}, indent=1, sort_keys=True).encode(), vendor()


def _end(folder: Path, words: str) -> int:
    done: subprocess.CompletedProcess[str] = frozen_forms.done(folder, words)
    return done.returncode


def python() -> dict[str, list[str]]:
    """Returns the parameters of each public function, and the names of each public module."""
    public_names: dict[str, list[str]] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        public_names[name] = sorted(getattr(module, "__all__", ()))
        for public in public_names[name]:
            thing = getattr(module, public)
            if inspect.isfunction(thing) or (inspect.isclass(thing) and public == "Request"):
                public_names[f"{name}.{public}"] = sorted(inspect.signature(thing).parameters)
    return public_names


def options() -> dict[str, list[str]]:
    """Returns the options of each command."""
    context = click.Context(main)
    by_command = {}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        params = (param for param in command.params if isinstance(param, click.Option))
        words = (word for param in params for word in (*param.opts, *param.secondary_opts))
        by_command[name] = sorted(set(words))
    return by_command


def gone(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Yields the names of a release that a later release lacks."""
    if isinstance(before, dict):
        for key, names in before.items():
            yield from gone(names, after.get(key, []), f"{where}{key}: ")
    else:
        yield from (f"{where}{name}" for name in before if name not in after)


def vendor() -> bytes:
    """Returns an archive: two operator sets of a vendor, their database, and a model."""
    from onnx.onnx_operators_pb import OperatorSetProto

    with tempfile.TemporaryDirectory(prefix="opshift-") as name:
        folder = Path(name)
        for version, path in ((1, SET_1), (2, SET_2)):
            ops = OperatorSetProto(
                magic="ONNXOPSET", ir_version=8, domain=DOMAIN, opset_version=version
            )
            ops.operator.add(op_type="Same", since_version=1, status=1, doc_string=SIGNATURE)
            if version > 1:
                ops.operator.add(op_type="More", since_version=2, doc_string=SIGNATURE)
            (folder / path).write_bytes(ops.SerializeToString(deterministic=True))
        header = f'<ir_version: 8, opset_import: ["" : 13, "{DOMAIN}" : 1]> g '
        onnx.save(onnx.parser.parse_model(header + TEXT), folder / MODEL)
        words = f"ops build --domain {DOMAIN} -o {DATABASE} --opset {SET_1} --opset {SET_2}"
        assert frozen_forms.done(folder, words).returncode == 0
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in (SET_1, SET_2, DATABASE, MODEL):
                archive.writestr(path, (folder / path).read_bytes())
        return packed.getvalue()
