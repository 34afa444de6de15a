# SPDX-License-Identifier: Apache-2.0
"""Prints how many models are right before and after a conversion, and why others are not."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

Told: TypeAlias = "dict[str, str]"
# before, after: the source and the result. searched: the result of --runtime. stamped: the source
# with the versions of the result. later: the result in a later release. by: the build of opshift.
Measured: TypeAlias = "dict[str, Told]"

# Messages of a runtime that has no kernel for an operator or for an element type.
LACKS = re.compile(
    r"Could not find an implementation|NOT_IMPLEMENTED|No Op registered|not a registered function"
    r"|Failed to find kernel"
)
# The checker of a runtime rejects a node of the model, and not one that the runtime fused.
FOREIGN = re.compile(
    r"Load model from .* In Node, \(\"[^\"]*\", (\w+), \"com.microsoft\"", re.DOTALL
)
BAD = ("wrong", "crash", "timeout")
OUTCOMES = ("not loaded", "not run", "wrong", "crash", "timeout", "refused", "failed")


@dataclass
class Results:
    """Outcomes by release and model, and releases that could not be installed."""

    models: dict[str, dict[str, Measured]] = field(default_factory=dict)
    passed_over: dict[str, str] = field(default_factory=dict)


def matrix(results: Results) -> Iterator[str]:
    """Yields a table of predicted answers and real outcomes, and each wrong prediction."""
    counts, wrong = Counter[tuple[str, bool]](), list[str]()
    for asked, models in results.models.items():
        for name, measured in sorted(models.items()):
            for side in ("before", "after"):
                result = measured[side]
                if not result.get("answer") or result["outcome"] == "converted":
                    continue
                runs = result["outcome"] == "right"
                counts[result["answer"], runs] += 1
                if (result["answer"], runs) in (("yes", False), ("no", True)):
                    why = " ".join(_shown(result).split())[:160]
                    wrong.append(f"* {result['answer']}: {_named(asked)}, {name} {side}: {why}")
    yield "| answer | ran and was right | did not | share |"
    yield "| --- | --- | --- | --- |"
    for answer, meant in (("yes", True), ("no", False), ("not known", True)):
        good, bad = counts[answer, meant], counts[answer, not meant]
        share = f"{100 * good / (good + bad):.1f} %" if good + bad else "-"
        yield f"| {answer} | {counts[answer, True]} | {counts[answer, False]} | {share} |"
    yield ""
    yield from wrong


def lacks(outcome: Told) -> str:
    """Returns the operator or type that the runtime lacks, if the model fails for this reason."""
    if outcome["outcome"] == "refused":
        return f"{outcome['op']}: {outcome['kind']}"
    if outcome["outcome"] == "not loaded" and (foreign := FOREIGN.search(outcome["why"])):
        return f"com.microsoft {foreign[1]} in a later form"
    if outcome["outcome"] in ("not loaded", "not run") and LACKS.search(outcome["why"]):
        if match := re.search(r"implementation for (?:the node )?(?:(\S+):)?(\S+)", outcome["why"]):
            written = (match[1] or "").startswith("opshift")  # another form may exist
            return "" if written else match[2]
        if match := re.search(r"(\w+) is not a registered function", outcome["why"]):
            return match[1]
        return "a kernel or operator"
    return ""


def worse(measured: Measured) -> bool:
    """Returns whether the result is wrong or crashes, although the original does not."""
    return measured["after"]["outcome"] in BAD and measured["before"]["outcome"] not in BAD


def fault(name: str, version: str, results: Results) -> str:
    """Explains why the runtime, not the conversion, causes wrong results; "" if unknown."""
    measured = results.models[version][name]
    stamped, after = measured.get("stamped", {}), measured["after"]
    if stamped.get("outcome") in BAD:
        shown = _shown(stamped)
        return f"the original nodes with the versions of the result have the same fault ({shown})"
    if (later := measured.get("later", {})).get("outcome") == "right":
        return f"the same file is right in onnxruntime {later['release']}"
    if after.get("unoptimized") == "right":
        return "the result is right without the optimizations of the release"
    for other, alike in sorted(results.models[version].items()):
        if _network(other) == _network(name) and alike["before"]["outcome"] in BAD:
            return f"the same network in {other} has the same fault: {alike['before']['why']}"
    for release, models in results.models.items():
        for which in ("before", "stamped"):
            same = models.get(name, {}).get(which, {})
            if same.get("outcome") in BAD and same.get("why") == after.get("why"):
                return f"the original has the same fault in {_named(release)} ({_shown(same)})"
    return ""


def _network(name: str) -> str:
    return re.sub(r"_op\d+.*", "", name)


def _shown(outcome: Told) -> str:
    return f"{outcome['outcome']}: {outcome.get('why', '')}".rstrip(": ")


def row(version: str, results: Results) -> str:
    """Returns the row of the table with the counts of one runtime."""
    models = results.models[version]
    before = sum(m["before"]["outcome"] == "right" for m in models.values())
    after = Counter(m["after"]["outcome"] for m in models.values())
    can = sum(not lacks(m["after"]) for m in models.values())
    share = f"{100 * after['right'] / can:.1f} %" if can else "-"
    cells = [_named(version), len(models), before, after["right"], can, share]
    cells += [after[name] for name in OUTCOMES]
    bad = [name for name, measured in models.items() if worse(measured)]
    faults = sum(bool(fault(name, version, results)) for name in bad)
    cells += [faults, len(bad) - faults, builds(models.values())]
    return "| " + " | ".join(map(str, cells)) + " |"


HEADER = (
    "| runtime | models | right before | right after | expressible | share right of these | "
    + " | ".join(OUTCOMES)
    + " | not before, fault of the runtime | not before, other | build |"
)


def builds(measured: Iterable[Measured]) -> str:
    """Returns the builds of opshift that converted the models, the most frequent build first."""
    counts = Counter(outcomes.get("by", {}).get("build", "not recorded") for outcomes in measured)
    (most, _), *others = counts.most_common() or [("-", 0)]
    return ", ".join([most, *(f"{name} ({count})" for name, count in others)])


def searched(results: Results) -> Iterator[str]:
    """Yields, for each runtime, the models that are right only with, or without, `--runtime`."""
    for version, models in results.models.items():
        of = {name: sides for name, sides in models.items() if "searched" in sides}
        right = {name for name, sides in of.items() if sides["searched"]["outcome"] == "right"}
        ran = {name for name, sides in of.items() if sides["before"]["outcome"] == "right"}
        if of:
            yield f"{_named(version)} with --runtime: {len(right)} of {len(of)} right"
            yield f"* lost: {', '.join(sorted(ran - right)) or 'none'}"


def _named(asked: str) -> str:
    return asked.replace("==", " ") if "==" in asked else f"onnxruntime {asked}"


def table(results: Results) -> str:
    line = "|" + " --- |" * HEADER.count(" | ") + " --- |"
    return "\n".join([HEADER, line, *(row(version, results) for version in results.models)])


def failures(results: Results) -> Iterator[str]:
    """Yields, for each runtime, the models that are not right after conversion, by reason."""
    for version, models in results.models.items():
        grouped: dict[str, list[str]] = defaultdict(list)
        for name, measured in sorted(models.items()):
            if measured["after"]["outcome"] != "right":
                grouped[_reason(name, version, results)].append(name)
        yield f"\n{_named(version)}: models that are not right\n"
        yield from (f"* {reason}: {', '.join(names)}" for reason, names in sorted(grouped.items()))


def _reason(name: str, version: str, results: Results) -> str:
    measured = results.models[version][name]
    after = measured["after"]
    if missing := lacks(after):
        return f"lacks {missing}"
    mark = ""
    if worse(measured):
        proof = fault(name, version, results)
        mark = f" ({proof or 'the original was neither wrong nor a crash'})"
    why = " ".join(after.get("why", "").split())[:160]
    return f"{after['outcome']}, before {measured['before']['outcome']}{mark}: {why}"
