# SPDX-License-Identifier: Apache-2.0
"""Generates the reference pages from the adapters, the codes and the command; builds the site.

    python -m tools.author docs                write docs/reference/generated/
    python -m tools.author docs --site DIR     also build the site into DIR (needs opshift[docs])

The generated pages are not committed. The tests compare these pages with the adapters.
"""

from __future__ import annotations

import html
import json
import pkgutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from opshift import codes, terms
from opshift.author import registry
from opshift.author.verdicts import ALTERNATIVE, FORM, LEAVE, RETIRED, WORDS, Adapter
from opshift.opsets import schemas
from opshift.testing.case_files import examples_with

from tools.author import runtimes_page
from tools.lib.program import described

DOCS = Path(__file__).resolve().parents[2] / "docs"
GENERATED = DOCS / "reference" / "generated"
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview")
JSON_HEAD = """# JSON

`--json` prints every outcome as one JSON object, errors included. It is the short form of
`--output-format json`; with `jsonl`, each object is one line. Python's `.to_json()` gives the same
objects. `opshift schema` prints the [JSON Schema](https://json-schema.org) of all of them. Every
object has `schema_version` and `kind`. Within a version, fields are only added: a reader must
ignore fields that it does not know.
"""
_SCHEMA = json.loads(pkgutil.get_data("opshift", "outcomes.schema.json") or b"")
_WORDS = {"string": "text", "array": "list"}
NOT_IN_MENU = "---\norphan: true\n---\n\n"  # for the many pages that an index lists
KINDS = {
    "exact": "the same operator, nothing to do",
    "guarded": "the same operator where the derived guards pass",
    "rewritten": "rewritten exactly, or refused with a reason for the node",
    "decomposed": "written with other operators, or refused with a reason",
    "approximate": "some forms need permission",
    "impossible": "refused, with the reason",
    "missing": "not described",
}


def verdict(domain: str, op: str, start: int, to: int) -> str:
    """Returns how an operator is converted at one version change, for the coverage table."""
    adapter = registry.default().get(domain, op, start, to)
    if adapter is None:
        return "missing"
    if adapter.kind == "impossible":
        return "impossible"
    if adapter.approximate:
        return "approximate"
    if schemas.schema(domain, op, to) is None:
        return "decomposed"
    if not adapter.rewrites:
        return "exact" if to > start else "guarded"
    return "rewritten"


def crossings(domain: str, op: str) -> Iterator[tuple[int, int]]:
    """Yields every version change of an operator in both directions, upward first."""
    versions = [schema.since for schema in schemas.history(domain, op)]
    yield from ((v - 1, v) for v in versions[1:])
    yield from ((v, v - 1) for v in reversed(versions) if v > 1)


def page(domain: str, op: str) -> str:
    """Returns the page of one operator."""
    versions = ", ".join(str(s.since) for s in schemas.history(domain, op))
    lines = [f"# {domain + '.' if domain else ''}{op}", "", f"Versions: {versions}.", ""]
    for start, to in crossings(domain, op):
        adapter = registry.default().get(domain, op, start, to)
        kind = verdict(domain, op, start, to)
        lines += [f"## {start} → {to}: {kind}", ""]
        if adapter is not None:
            lines += [adapter.summary, ""]
            lines += _details(adapter, op)
    return "\n".join(lines).rstrip() + "\n"


def _details(adapter: Adapter, op: str) -> list[str]:
    lines = []
    if adapter.emits and adapter.run is not None:
        lines += [f"May write: {', '.join(sorted(adapter.emits))}.", ""]
    if adapter.approximate:
        lines += ["Some forms are not exactly equal and need `allow_approximate`.", ""]
    if shown := examples_with(adapter, op):
        lines += ["| example | graph | outcome |", "|---|---|---|"]
        for example in shown:
            outcome = example.outcome
            graph = " ".join(f"{example.graph} {example.functions}".replace("|", "\\|").split())
            lines.append(f"| {example.title} | `{graph}` | {outcome or 'equal'} |")
        lines.append("")
    return lines


def coverage() -> str:
    """Returns the coverage page: a band for each operator and direction, over all opsets."""
    lines = [
        "# Coverage",
        "",
        "Every operator at every opset at which it changes, upward and downward. The examples"
        " behind each band are compared numerically by the tests. Hover over a band to read the"
        " reason.",
        "",
        "```{raw} html",
        "<p>" + "".join(map(_legend, KINDS)) + "</p>",
        "```",
        "",
    ]
    for domain in DOMAINS:
        lines += [f"## {domain or 'ai.onnx'}", "", *_totals(domain), ""]
        lines += ["```{raw} html", '<div class="scroll"><table class="coverage">']
        lines += [bands(domain, op) for op in schemas.operators(domain)]
        lines += ["</table></div>", "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _legend(kind: str) -> str:
    return f'<span class="key"><span class="legend band-{kind}"></span>{kind}: {KINDS[kind]}</span>'


def bands(domain: str, op: str) -> str:
    """Returns two rows of the coverage table for one operator: its steps up and its steps down."""
    since = [schema.since for schema in schemas.history(domain, op)]
    ends = [*since[1:], (schemas.latest(domain) or since[-1]) + 1]
    rows = []
    for up in (True, False):
        cells = [f'<td colspan="{since[0] - 1}"></td>'] if since[0] > 1 else []
        for i, (version, end) in enumerate(zip(since, ends, strict=True)):
            start, to = (version - 1, version) if up else (version, version - 1)
            born = "band-born" if (up and i == 0) or version == 1 else ""
            kind = born or f"band-{verdict(domain, op, start, to)}"
            text = f"since {version}" if born else _told(domain, op, start, to)
            title = html.escape(text, quote=True)
            cells.append(
                f'<td colspan="{end - version}" class="{kind}" title="{title}">{version}</td>'
            )
        name = f'<a href="adapters/{_file(domain, op)[:-3]}.html">{op}</a>' if up else ""
        rows.append(f"<tr><th>{name}</th><th>{'up' if up else 'down'}</th>{''.join(cells)}</tr>")
    return "\n".join(rows)


def _told(domain: str, op: str, start: int, to: int) -> str:
    adapter = registry.default().get(domain, op, start, to)
    reason = adapter.summary if adapter is not None else "not described"
    return f"{op} {start} to {to}: {verdict(domain, op, start, to)}. {reason}"


def _totals(domain: str) -> Iterator[str]:
    counts: dict[str, dict[str, int]] = {"up": defaultdict(int), "down": defaultdict(int)}
    for op in schemas.operators(domain):
        for start, to in crossings(domain, op):
            counts["up" if to > start else "down"][verdict(domain, op, start, to)] += 1
    for direction, by_kind in counts.items():
        listed = ", ".join(f"{by_kind[name]} {name}" for name in KINDS if by_kind[name])
        yield f"{direction}: {listed or 'nothing changes'}.  "


def _file(domain: str, op: str) -> str:
    return f"{domain}.{op}.md" if domain else f"{op}.md"


def any_version_page(title: str, boundary: tuple[int, int]) -> str:
    """Returns a page of the adapters that apply at every version."""
    lines = [title, ""]
    for (domain, op, start, to), adapter in registry.default():
        if (start, to) == boundary:
            lines += [f"## {domain + '.' if domain else ''}{op}", "", adapter.summary, ""]
            lines += _details(adapter, op)
    return "\n".join(lines).rstrip() + "\n"


def command_page() -> str:
    """Returns a page with the help of every command, taken from the command itself."""
    from click.testing import CliRunner
    from opshift.cli.entry import main as group

    def shown(*words: str) -> list[str]:
        help_text = CliRunner().invoke(group, [*words, "--help"], prog_name="opshift").stdout
        return ["```text", help_text.rstrip(), "```", ""]

    lines = ["# The command", "", *shown()]
    for name in sorted(group.list_commands(click.Context(group))):
        lines += [f"## opshift {name}", "", *shown(name)]
    return "\n".join(lines)


def code_index() -> str:
    """Returns the index of all codes, with a link to the page of each code."""
    texts = [codes.page(code) for code in codes.names()]
    lines = ["# Codes", "", "`opshift explain CODE` prints the same pages.", "", "| code | |"]
    lines += ["|---|---|", *(f"| [{x.code}]({x.code}.md) | {x.sentence} |" for x in texts)]
    return "\n".join(lines) + "\n"


def json_page() -> str:
    """Returns a page that describes every JSON outcome, from the published schema."""
    kinds = [(name, schema) for name, schema in _SCHEMA["$defs"].items() if "title" in schema]
    parts = [pair for pair in _SCHEMA["$defs"].items() if pair[0] not in dict(kinds)]
    lines = [JSON_HEAD]
    for name, schema in kinds:
        lines += [f"## {name}", "", f"{schema['description']} Printed by: `{schema['title']}`.", ""]
        lines += [*_fields(schema), ""]
    lines += ["## Parts", "", "The following objects are parts of those above.", ""]
    for name, schema in parts:
        if schema.get("type") == "object":
            lines += [f"### {name}", "", schema["description"], "", *_fields(schema), ""]
    return "\n".join(lines).rstrip() + "\n"


def _fields(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yields a table of the fields of an object; fields of inner objects get dotted names."""
    if not prefix:
        yield from ("| field | type | |", "|---|---|---|")
    for name, field in schema.get("properties", {}).items():
        shown = f"{prefix}{name}"
        description = field.get("description", "").replace("|", "\\|")
        optional = "" if name in schema.get("required", ()) else " Optional."
        yield f"| `{shown}` | {_type(field)} | {description}{optional} |"
        inner = field
        while "properties" not in inner and ("items" in inner or "additionalProperties" in inner):
            shown += "[]" if "items" in inner else ".*"
            inner = inner.get("items") or inner["additionalProperties"]
        yield from _fields(inner, f"{shown}.") if inner.get("properties") else ()


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})" if _SCHEMA["$defs"][name].get("type") == "object" else name
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(map(_type, field["anyOf"]))
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"text to {_type(field['additionalProperties'])}"
    kinds = [field["type"]] if isinstance(field["type"], str) else field["type"]
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds)


def pages() -> dict[str, str]:
    """Returns every generated page by its path in `docs/reference/generated`."""
    wanted = {
        "adapters/retired.md": any_version_page("# Operators that left the registry", RETIRED),
        "adapters/contrib.md": any_version_page("# Operators of vendors in ai.onnx", LEAVE),
        "adapters/forms.md": any_version_page("# Equal forms that more runtimes run", FORM),
        "adapters/alternatives.md": any_version_page(
            "# Equal forms for runtimes without a kernel", ALTERNATIVE
        ),
        "adapters/words.md": any_version_page("# Operators written in others", WORDS),
    }
    for domain in DOMAINS:
        for op in schemas.operators(domain):
            wanted[f"adapters/{_file(domain, op)}"] = page(domain, op)
    titles = {Path(name).name: text.partition("\n")[0].strip("# ") for name, text in wanted.items()}
    listed = "".join(f"- [{titles[name]}]({name})\n" for name in sorted(titles))
    index = f"# Adapters\n\nOne page for each operator.\n\n{listed}"
    wanted |= {f"codes/{code}.md": codes.page(code).text for code in codes.names()}
    return {
        **{name: NOT_IN_MENU + text for name, text in wanted.items()},
        "adapters/index.md": index,
        "codes/index.md": code_index(),
        "coverage.md": coverage(),
        "runtimes.md": runtimes_page.page(),
        "command.md": command_page(),
        "json.md": json_page(),
    }


def write(folder: Path) -> None:
    """Writes the generated pages, and removes the pages of removed operators."""
    wanted = pages()
    for path in folder.rglob("*.md"):
        if path.relative_to(folder).as_posix() not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool."""
    parser = described(__doc__)
    parser.add_argument("--site", type=Path, metavar="DIR", help="build the site into this folder")
    args = parser.parse_args(argv)
    with terms.called_by(terms.Caller.BOTH):
        write(GENERATED)
    if args.site is None:
        return 0
    words = ["-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(args.site)]
    return subprocess.call([sys.executable, "-m", "sphinx", *words])


if __name__ == "__main__":
    sys.exit(main())
