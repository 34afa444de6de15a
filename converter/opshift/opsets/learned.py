# SPDX-License-Identifier: Apache-2.0
"""Facts about a user's own runtimes that were measured and improve later conversions.

The file `learned.toml` is next to the user's own table of targets. For each target, the file has a
table with the fields that its facts correct. A fact applies only to the release that ran the model.
"""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opshift.errors import BadTarget
from opshift.lazy import deferred
from opshift.opsets.target_names import squeezed
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift import toml
else:
    toml = deferred("opshift.toml")

FILE = "learned.toml"
LISTS = ("other_forms", "without")
HEAD = (
    "# Written by `opshift targets --learn`: settings with which models ran on this machine.\n"
    "# A table may be changed or deleted.\n"
)


@dataclass(frozen=True, slots=True)
class Learned:
    """Measured facts that correct the table's entry of one release; a None corrects nothing."""

    source: str
    date: str
    prefer: int | None = None  # the highest opset for a model
    lowest: int | None = None  # the lowest opset for a model
    other_forms: tuple[str, ...] = ()
    functions: bool = True
    without: tuple[str, ...] = ()  # operators that conversions replace


def fact_about(shown: str, path: Path) -> Learned | None:
    """Returns the facts of a file about a release, or None."""
    if not path.is_file():
        return None
    return _read(str(path), path.read_text("utf-8")).get(squeezed(shown))


def record_settings(report: Mapping[str, Any], name: str, path: Path) -> str:
    """Adds the settings with which a model ran in a runtime to the file `path`; returns the target.

    `report` is the JSON of `opshift convert --runtime`, and messages call it `name`.
    """
    trials = report.get("trials") if isinstance(report, Mapping) else None
    if not trials:
        raise BadTarget(
            f"{name} is not a report of a run in a runtime; write one with `opshift convert"
            " --runtime PYTHON --json`"
        )
    *failed, last = trials["trials"]
    target: str = trials["target"]
    if not trials["runs"]:
        raise BadTarget(f"{name}: no result ran in {target}; give a report whose result ran")
    if not failed:
        raise BadTarget(
            f"{name}: the first result ran in {target}, so the table of targets needs no change"
        )
    fact: dict[str, Any] = {}
    if last["opset"] != failed[0]["opset"]:
        risen = last["opset"] > report["source"].get("", 0)
        fact["lowest" if risen else "prefer"] = last["opset"]
    fact |= {field: last[field] for field in LISTS if last[field]}
    if not last["functions"]:
        fact["functions"] = False
    fact["source"] = f"a model ran in {trials['python']}"
    fact["date"] = datetime.date.today().isoformat()
    facts = toml.loads(path.read_text("utf-8")) if path.is_file() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + "".join(_written({**facts, target: fact})), "utf-8")
    return target


def _written(facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns the tables of a file; JSON strings, numbers, lists and booleans are valid TOML."""
    return [
        f"\n[{json.dumps(target)}]\n"
        + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fact.items())
        for target, fact in sorted(facts.items())
    ]


@functools.lru_cache(maxsize=4)
def _read(path: str, text: str) -> dict[str, Learned]:
    try:
        return {
            squeezed(target): Learned(
                **fact | {field: tuple(fact.get(field, ())) for field in LISTS}
            )
            for target, fact in toml.loads(text).items()
        }
    except (TypeError, ValueError, AttributeError) as error:
        raise BadTarget(f"{path} cannot be read: {error}; correct or delete it") from error
