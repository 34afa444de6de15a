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


def matrix(found: Results) -> Iterator[str]:
    """Yields a table of predicted answers and real outcomes, and each wrong prediction."""
    counts, wrong = Counter[tuple[str, bool]](), list[str]()
    for asked, models in found.models.items():
        for name, measured in sorted(models.items()):
            for side in ("before", "after"):
                told = measured[side]
                if not told.get("answer") or told["outcome"] == "converted":
                    continue
                runs = told["outcome"] == "right"
                counts[told["answer"], runs] += 1
                if (told["answer"], runs) in (("yes", False), ("no", True)):
                    why = " ".join(_shown(told).split())[:160]
                    wrong.append(f"* {told['answer']}: {_named(asked)}, {name} {side}: {why}")
    yield "| answer | ran and was right | did not | share |"
    yield "| --- | --- | --- | --- |"
    for answer, meant in (("yes", True), ("no", False), ("not known", True)):
        good, bad = counts[answer, meant], counts[answer, not meant]
        share = f"{100 * good / (good + bad):.1f} %" if good + bad else "-"
        yield f"| {answer} | {counts[answer, True]} | {counts[answer, False]} | {share} |"
    yield ""
    yield from wrong


def lacks(told: Told) -> str:
    """Returns the operator or type that the runtime lacks, if the model fails for this reason."""
    if told["outcome"] == "refused":
        return f"{told['op']}: {told['kind']}"
    if told["outcome"] == "not loaded" and (foreign := FOREIGN.search(told["why"])):
        return f"com.microsoft {foreign[1]} in a later form"
    if told["outcome"] in ("not loaded", "not run") and LACKS.search(told["why"]):
        if found := re.search(r"implementation for (?:the node )?(?:(\S+):)?(\S+)", told["why"]):
            written = (found[1] or "").startswith("opshift")  # another form may exist
            return "" if written else found[2]
        if found := re.search(r"(\w+) is not a registered function", told["why"]):
            return found[1]
        return "a kernel or operator"
    return ""


def worse(measured: Measured) -> bool:
    """Returns whether the result is wrong or crashes, although the original does not."""
    return measured["after"]["outcome"] in BAD and measured["before"]["outcome"] not in BAD


def fault(name: str, version: str, found: Results) -> str:
    """Explains why the runtime, not the conversion, causes wrong results; "" if unknown."""
    measured = found.models[version][name]
    stamped, after = measured.get("stamped", {}), measured["after"]
    if stamped.get("outcome") in BAD:
        shown = _shown(stamped)
        return f"the original nodes with the versions of the result have the same fault ({shown})"
    if (later := measured.get("later", {})).get("outcome") == "right":
        return f"the same file is right in onnxruntime {later['release']}"
    if after.get("unoptimized") == "right":
        return "the result is right without the optimizations of the release"
    for other, alike in sorted(found.models[version].items()):
        if _network(other) == _network(name) and alike["before"]["outcome"] in BAD:
            return f"the same network in {other} has the same fault: {alike['before']['why']}"
    for release, models in found.models.items():
        for which in ("before", "stamped"):
            one = models.get(name, {}).get(which, {})
            if one.get("outcome") in BAD and one.get("why") == after.get("why"):
                return f"the original has the same fault in {_named(release)} ({_shown(one)})"
    return ""


def _network(name: str) -> str:
    return re.sub(r"_op\d+.*", "", name)


def _shown(told: Told) -> str:
    return f"{told['outcome']}: {told.get('why', '')}".rstrip(": ")


def row(version: str, found: Results) -> str:
    """Returns the row of a runtime."""
    models = found.models[version]
    before = sum(m["before"]["outcome"] == "right" for m in models.values())
    after = Counter(m["after"]["outcome"] for m in models.values())
    can = sum(not lacks(m["after"]) for m in models.values())
    share = f"{100 * after['right'] / can:.1f} %" if can else "-"
    cells = [_named(version), len(models), before, after["right"], can, share]
    cells += [after[name] for name in OUTCOMES]
    bad = [name for name, measured in models.items() if worse(measured)]
    faults = sum(bool(fault(name, version, found)) for name in bad)
    cells += [faults, len(bad) - faults, builds(models.values())]
    return "| " + " | ".join(map(str, cells)) + " |"


HEADER = (
    "| runtime | models | right before | right after | expressible | share right of these | "
    + " | ".join(OUTCOMES)
    + " | not before, fault of the runtime | not before, other | build |"
)


def builds(measured: Iterable[Measured]) -> str:
    """Returns the builds of opshift that converted the models, the most frequent build first."""
    counts = Counter(one.get("by", {}).get("build", "not recorded") for one in measured)
    (most, _), *others = counts.most_common() or [("-", 0)]
    return ", ".join([most, *(f"{name} ({count})" for name, count in others)])


def searched(found: Results) -> Iterator[str]:
    """Yields, for each runtime, which models `--runtime` makes right, and which it loses."""
    for version, models in found.models.items():
        of = {name: one for name, one in models.items() if "searched" in one}
        right = {name for name, one in of.items() if one["searched"]["outcome"] == "right"}
        ran = {name for name, one in of.items() if one["before"]["outcome"] == "right"}
        if of:
            yield f"{_named(version)} with --runtime: {len(right)} of {len(of)} right"
            yield f"* lost: {', '.join(sorted(ran - right)) or 'none'}"


def _named(asked: str) -> str:
    return asked.replace("==", " ") if "==" in asked else f"onnxruntime {asked}"


def table(found: Results) -> str:
    line = "|" + " --- |" * HEADER.count(" | ") + " --- |"
    return "\n".join([HEADER, line, *(row(version, found) for version in found.models)])


def failures(found: Results) -> Iterator[str]:
    """Yields, for each runtime, the models that are not right after conversion, by reason."""
    for version, models in found.models.items():
        grouped: dict[str, list[str]] = defaultdict(list)
        for name, measured in sorted(models.items()):
            if measured["after"]["outcome"] != "right":
                grouped[_reason(name, version, found)].append(name)
        yield f"\n{_named(version)}: models that are not right\n"
        yield from (f"* {reason}: {', '.join(names)}" for reason, names in sorted(grouped.items()))


def _reason(name: str, version: str, found: Results) -> str:
    measured = found.models[version][name]
    after = measured["after"]
    if missing := lacks(after):
        return f"lacks {missing}"
    mark = ""
    if worse(measured):
        proof = fault(name, version, found)
        mark = f" ({proof or 'the original was neither wrong nor a crash'})"
    why = " ".join(after.get("why", "").split())[:160]
    return f"{after['outcome']}, before {measured['before']['outcome']}{mark}: {why}"
