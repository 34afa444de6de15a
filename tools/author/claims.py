# SPDX-License-Identifier: Apache-2.0
"""Writes the fingerprints of the installed schemas into `boundary(...)` lines.

python -m tools.author claims adapters/opshift_adapters/layout/reshape.py  add the missing marks
python -m tools.author claims --add FILES  add a mark where this onnx differs
"""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path

from opshift.opsets import schemas

WIDTH = 96


def marked(ops: str, domain: str, version: int, add: bool) -> str:
    """The list of operators with a fingerprint behind each name."""
    words = []
    for word in ops.split():
        name, _, marks = word.partition(":")
        current = schemas.fingerprint(domain, name, version)
        if not schemas.history(domain, name):
            raise SystemExit(f"{domain or 'ai.onnx'} has no operator {name}")
        if not any(s.since == version for s in schemas.history(domain, name)):
            if not add:  # an older onnx may not know the boundary
                raise SystemExit(f"{name} does not change at {version}")
        elif not marks:
            marks = current
        elif add and current not in marks.split("/"):
            marks = f"{marks}/{current}"
        words.append(f"{name}:{marks}" if marks else name)
    return " ".join(words)


def literal(text: str, indent: int) -> str:
    """A string literal, broken into lines if it is long."""
    if len(text) + indent < WIDTH:
        return f'"{text}"'
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) + indent + 8 > WIDTH:
            lines.append(line)
            line = ""
        line += f"{word} "
    lines.append(line.rstrip())
    pad = " " * (indent + 4)
    return "(\n" + "\n".join(f'{pad}"{one}"' for one in lines) + f"\n{' ' * indent})"


def without_parentheses(text: bytes, begin: int, end: int) -> tuple[int, int]:
    """Widens a span over parentheses that hold nothing else."""
    before, after = text[:begin].rstrip(), text[end:].lstrip()
    if before.endswith(b"(") and after.startswith(b")") and before[:-1].rstrip().endswith(b","):
        return len(before) - 1, len(text) - len(after) + 1
    return begin, end


def rewrite(path: Path, add: bool) -> None:
    source = path.read_text()
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    edits = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "boundary"):
            continue
        version, ops = (ast.literal_eval(argument) for argument in node.args[:2])
        named = {k.arg: k.value for k in node.keywords}
        domain = ast.literal_eval(named["domain"]) if "domain" in named else ""
        where = node.args[1]
        begin = starts[where.lineno - 1] + where.col_offset
        end = starts[(where.end_lineno or 1) - 1] + (where.end_col_offset or 0)
        indent = len(lines[node.lineno - 1]) - len(lines[node.lineno - 1].lstrip())
        new = marked(ops, domain, version, add)
        if new.split() != ops.split():
            begin, end = without_parentheses(source.encode(), begin, end)
            edits.append((begin, end, literal(new, indent)))
    text = source.encode()
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new.encode() + text[end:]
    path.write_bytes(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--add", action="store_true")
    arguments = parser.parse_args()
    for path in arguments.files:
        rewrite(path, arguments.add)


if __name__ == "__main__":
    sys.exit(main())
