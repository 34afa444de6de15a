# SPDX-License-Identifier: Apache-2.0
"""Finds the versions of a model that are too new or too old for a runtime."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from opshift.convert.runtime.lack import RuntimeLack, lack_of, since_of
from opshift.model.document import Document
from opshift.model.scope import Key, Root
from opshift.opsets import schemas

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease


def stamps(document: Document, release: RuntimeRelease) -> list[RuntimeLack]:
    """Returns the IR version and the imports of a model that are too new for a runtime."""
    sentences = []
    ir = document.model.ir_version
    if release.ir is not None and ir > release.ir:
        reads = (
            "reads IR" if release.flag("compares") else "loads the model unchecked, but supports IR"
        )
        sentences.append(f"the model has IR {ir}; {release.shown} {reads} only up to {release.ir}")
    for domain, version in sorted(document.imports.items()):
        top = release.imports.get(domain)
        if top is not None and version > top:
            shown = domain or "ai.onnx"
            reads = f"reads {shown} only up to {top}"
            if not release.flag("compares"):
                reads = f"loads the model unchecked, but supports {shown} only up to {top}"
            sentences.append(f"the model imports {shown} {version}; {release.shown} {reads}")
    return [*map(RuntimeLack, sentences)]


def without_imports(
    release: RuntimeRelease, added: Collection[str]
) -> tuple[list[RuntimeLack], list[str]]:
    """Returns reasons and open questions for a model whose missing imports were added.

    A model without an import of ai.onnx imports nothing, which measured runtimes reject.
    onnxruntime adds missing imports of other domains itself. The addition was measured with Gelu of
    com.microsoft in 12 releases from 1.0 to 1.32, and with Normalizer from 0.3 on.
    """
    if "" not in added:
        doubted = () if release.kernels else sorted(added)
        return [], [
            f"whether {release.shown} reads a model without an import of {d}" for d in doubted
        ]
    if release.is_measured:
        return [RuntimeLack("the model imports no operator set")], []
    return [], [f"whether {release.shown} reads a model that imports no operator set"]


def below_floor(document: Document, release: RuntimeRelease) -> list[RuntimeLack]:
    """Returns operators of versions that are too old for the kernels of a runtime."""
    lacks = []
    for domain, floor in release.floors.items():
        for root in document.roots:
            version = root.imports.get(domain)
            if version is None or version >= floor:
                continue
            for key, places in root.index.items():
                if key[0] != domain or _may_run(root, key, release):
                    continue
                if _changed(key, version, floor):
                    says = (
                        f"{release.shown} has no kernels for {key[1]} of ai.onnx {version}; it has"
                    )
                    lacks.append(lack_of(key, places, f"{says} kernels from ai.onnx {floor} on"))
    return lacks


def _may_run(root: Root, key: Key, release: RuntimeRelease) -> bool:
    """Returns whether only a probe describes the kernels, and it does not show a failure."""
    probed = None if release.kernels else release.probed
    return probed is not None and probed.runs_at(key, since_of(root, key)) is not False


def _changed(key: Key, version: int, floor: int) -> bool:
    return schemas.schema(*key, version) != schemas.schema(*key, floor)
