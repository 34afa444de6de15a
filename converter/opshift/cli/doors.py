# SPDX-License-Identifier: Apache-2.0
"""Lists four common tasks, each with its first command and the guide to read."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from opshift.records import dataclass
from opshift.text import Line

TITLE = "Where to begin"
MODEL = "MODEL"


@dataclass(frozen=True, slots=True)
class Door:
    """A common task, its first command, and the guide that explains more."""

    question: str
    command: str
    guide: str  # below docs/

    def of(self, model: str) -> str:
        """Returns the command with the path of a model in place of MODEL."""
        return self.command.replace(MODEL, model)


DOORS = (
    Door(
        "My runtime says no",
        f"opshift convert {MODEL} -o OUT.onnx --for onnxruntime==1.10",
        "start/my-runtime-says",
    ),
    Door("From torch", "opshift.torch.export(module, args, target=13)", "start/from-torch"),
    Door("Many models", "opshift batch FOLDER RESULTS --to 13", "howto/batch"),
    Door("My own operators", "opshift adapters OPERATOR --domain DOMAIN", "start/write-an-adapter"),
)


def rows(model: str = MODEL) -> list[tuple[str, str]]:
    """Returns each task and its command, in which `model` stands for the path of the model."""
    return [(door.question, door.of(model)) for door in DOORS]


def lines(path: str) -> Iterator[Line]:
    """Yields the next commands for one model, which `opshift info` prints below its description."""
    model = shlex.quote(f"./{path}" if path.startswith("-") else path)
    yield Line(f"{TITLE}:")
    looks = [
        ("Which versions?", f"opshift lowest {model}"),
        ("Which runtimes?", f"opshift targets {model}"),
    ]
    tasks = [*looks, *rows(model)]
    width = max(len(question) for question, _ in tasks)
    for question, command in tasks:
        yield Line(f"  {question.ljust(width)}  {command}")
