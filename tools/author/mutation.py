# SPDX-License-Identifier: Apache-2.0
"""Mutates the adapters in one place at a time, and tests whether an example then fails.

    python -m tools.author mutation [--count 300] [--seed 0] [--only squeeze] [--changed main]

A mutant has an axis or a constant that is off by one, a guard that is dropped or negated, a
reversed comparison, swapped operands, or another operator. The examples that run the changed line
are converted with the mutant and compared on every set of `opshift.testing.input_sets`. A mutant is
killed if an example fails, if a result is longer, or if `written_forms.py` forbids one of its
nodes; otherwise it survives. `mutation.toml` lists equivalent mutants with the reasons.
"""

from __future__ import annotations

import gc
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from opshift import InvalidModel, Refused, convert_version, testing
from opshift.author.example import Example
from opshift.author.verdicts import Adapter
from opshift.convert.legal.rules import Findings, check
from opshift.convert.replay import call_records
from opshift.testing.example_models import differences
from opshift.testing.input_sets import SETS
from opshift.testing.models import ROUNDING
from opshift.testing.surveys import reasons
from opshift.verify import oracle

from tools.author.lengths import Length, length, worse
from tools.author.mutants import Mutant, found, modules, mutants
from tools.lib import written_forms
from tools.lib.program import described

PACKAGE = "opshift_adapters"
ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_suffix(".toml")
AT_ONCE = 60  # the number of examples that are converted before their results are compared
SECONDS = 30
MEMORY = 6 << 30


class _TooSlow(BaseException):
    """Raised for a mutant that takes too long."""


@dataclass
class ExampleRun:
    """One example, and its outcome without a mutant."""

    adapter: Adapter
    example: Example
    result: bytes | None = None
    length: Length | None = None
    known: set[str] = field(default_factory=set)  # sets on which even the original differs
    findings: Findings | None = None  # the findings about the result without a mutant

    def convert(self) -> Any:
        """Returns the model of the example and its result."""
        before = testing.example_model(self.adapter, self.example)
        target = testing.example_target(self.adapter, self.example)
        return before, convert_version(before, target, **self.example.options)


Lines = dict[tuple[str, int], list[ExampleRun]]


def traced(package: str) -> Lines:
    """Returns the examples that run each line of the adapters."""
    lines: Lines = defaultdict(list)
    root = str(ROOT / "adapters" / PACKAGE)

    for adapter, example in testing.examples(package):
        case, reached = ExampleRun(adapter, example), set[tuple[str, int]]()

        def local(frame: FrameType, event: str, arg: Any, reached: Any = reached) -> Any:
            reached.add((frame.f_code.co_filename, frame.f_lineno))
            return local

        def trace(frame: FrameType, event: str, arg: Any, local: Any = local) -> Any:
            return local if frame.f_code.co_filename.startswith(root) else None

        call_records.forget()
        sys.settrace(trace)
        try:
            with suppress(Refused, InvalidModel):
                before, after = case.convert()
                case.result = after.SerializeToString(deterministic=True)
                case.length = length(before, after)
        finally:
            sys.settrace(None)
        for place in reached:
            lines[place].append(case)
    return lines


@contextmanager
def installed(mutant: Mutant) -> Iterator[None]:
    """Replaces a function by its mutant, without cached results of its module."""
    module = sys.modules[mutant.module]
    function = found(module, mutant.function)
    assert function is not None
    replaced = dict(_functions(function.__code__, mutant.source.code()))
    assert replaced, f"no function runs this code: {mutant.title}"
    originals = {function: function.__code__ for function in replaced}
    for function, code in replaced.items():
        function.__code__ = code
    _forget(module)
    try:
        yield
    finally:
        for function, code in originals.items():
            function.__code__ = code
        _forget(module)


def _forget(module: ModuleType) -> None:
    """Clears the caches of a module and the recorded calls of adapters."""
    call_records.forget()
    for value in vars(module).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()


def _functions(old: CodeType, new: CodeType) -> Iterator[tuple[FunctionType, CodeType]]:
    """Yields the functions with the code of the original, each with its new code object."""
    if old.co_freevars == new.co_freevars:
        yield from ((function, new) for function in _runners(old, old.co_filename))
    inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new)]
    for pair in zip(*inner, strict=False):
        yield from _functions(*pair)


@cache  # otherwise, each example of each mutant would scan all objects of the process
def _runners(code: CodeType, _file: str) -> tuple[FunctionType, ...]:
    """Returns all functions that have this code object, such as copies made during an import."""
    functions = (user for user in gc.get_referrers(code) if isinstance(user, FunctionType))
    return tuple(function for function in functions if function.__code__ is code)


def killer(mutant: Mutant, cases: Sequence[ExampleRun]) -> str:
    """Returns the title of an example that fails with the mutant; empty if no example fails."""
    some = (cases[at : at + AT_ONCE] for at in range(0, len(cases), AT_ONCE))
    return next(filter(None, (_killer(mutant, part) for part in some)), "")


def _killer(mutant: Mutant, cases: Sequence[ExampleRun]) -> str:
    changed: list[Any] = []
    for case in cases:
        difference = _converts_otherwise(mutant, case, changed)
        if difference:
            return f"{case.example.title}: {difference}"
    for case, before, after in changed:
        difference = _computes_otherwise(case, before, after)
        if difference:
            return f"{case.example.title}: {difference}"
    return ""


def _converts_otherwise(mutant: Mutant, case: ExampleRun, changed: list[Any]) -> str:
    example = case.example
    try:
        with installed(mutant), limited():
            before, after = case.convert()
    except Refused as refused:
        same = {refusal.why for refusal in refused.refusals} == {example.refuses}
        return "" if same else "refused"
    except InvalidModel as invalid:
        return "" if example.invalid is not None and example.invalid in str(invalid) else "invalid"
    except _TooSlow:
        return f"not done after {SECONDS} s"
    except Exception as error:
        return type(error).__name__
    if example.refuses is not None or example.invalid is not None:
        return "converts"
    if example.gives not in (None, " ".join(node.op_type for node in after.graph.node)):
        return "gives other operators"
    now = length(before, after)
    if case.length is not None and worse(case.length, now):
        return f"is longer: {now}, not {case.length}"  # tests/adapters/test_lengths.py
    if forbidden := written_forms.objections(before, after):
        return forbidden[0]  # tests/adapters/test_examples.py
    if after.SerializeToString(deterministic=True) != case.result:
        changed.append((case, before, after))
    return ""


def _computes_otherwise(case: ExampleRun, before: Any, after: Any) -> str:
    if case.findings is None:
        case.findings = check(case.convert()[1])
    if worse := check(after).beyond(case.findings):
        return str(worse[0])
    asked = ("given",) if case.example.approximate else SETS  # only these inputs must be equal
    if not case.known:
        plain = differences(*case.convert(), case.example, asked)
        case.known = {name for name, difference in plain if difference} | {""}
    sets = [name for name in asked if name not in case.known]
    for name, difference in differences(before, after, case.example, sets):
        if difference:
            return f"[{name}] {difference}"
    return _by_the_oracle(case, before, after) if "given" in case.known else ""


def _by_the_oracle(case: ExampleRun, before: Any, after: Any) -> str:
    """Compares the results in our evaluator, as tests/adapters/test_examples.py does."""
    example = case.example
    inputs = oracle.make_inputs(before, overrides=dict(example.inputs))
    try:
        expected, actual = oracle.evaluate(before, inputs), oracle.evaluate(after, inputs)
    except oracle.OracleError as error:
        return f"the oracle: {error}"
    difference = oracle.compare(
        expected, actual, rtol=example.rtol, atol=example.atol, ulp=ROUNDING
    )  # fmt: skip
    return f"the oracle: {difference}" if difference else ""


@contextmanager
def limited() -> Iterator[None]:
    """Stops a mutant that takes too long."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooSlow

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def facts_killer(mutant: Mutant) -> str:
    """Returns an example of a constant, rank or size that fails with the mutant, or ""."""
    for title, passes in fact_checks():
        try:
            with installed(mutant), limited():
                passes()
        except _TooSlow:
            return f"{title}: not done after {SECONDS} s"
        except Exception as error:
            return f"{title}: {type(error).__name__}"
    return ""


@cache
def fact_checks() -> list[tuple[str, Callable[[], None]]]:
    """Returns a check for every example of a constant, rank, size or bound."""
    kinds = (
        (testing.folds, testing.assert_fold), (testing.rank_rules, testing.assert_ranks),
        (testing.shape_rules, testing.assert_shapes), (testing.bound_rules, testing.assert_bounds),
    )  # fmt: skip
    return [
        (example.title, partial(check, rule, example))  # type: ignore[arg-type, operator]
        for rules, check in kinds
        for rule, example in rules(PACKAGE)  # type: ignore[operator]
    ]


# -- the command ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MutantResult:
    """One mutant and its outcome: killed, equivalent or survived."""

    mutant: Mutant
    outcome: str
    told: str


def run(
    count: int, seed: int, chosen: Callable[[str], bool], package: str = PACKAGE,
    tell: Callable[[str], None] = lambda line: None,
) -> list[MutantResult]:  # fmt: skip
    """Runs a sample of the mutants of the chosen modules; a `count` of 0 means all mutants."""
    lines = traced(package)
    every = [m for module in modules(PACKAGE) if chosen(module.__name__) for m in mutants(module)]
    random.Random(seed).shuffle(every)
    equivalents, verdicts = reasons(EQUIVALENT), []
    for mutant in every:
        path = str(sys.modules[mutant.module].__file__)
        cases = {
            id(case): case
            for line in range(mutant.first, mutant.last + 1)
            for case in lines.get((path, line), ())
        }
        facts = mutant.module.startswith(f"{PACKAGE}.facts.")
        if not cases and not facts:
            continue  # `tools.author branches` lists lines that no example runs
        some = list(cases.values())
        random.Random(seed).shuffle(some)
        reason = (facts_killer(mutant) if facts else "") or killer(mutant, some)
        equivalent = mutant.title in equivalents
        outcome = "killed" if reason else "equivalent" if equivalent else "survived"
        verdicts.append(MutantResult(mutant, outcome, reason))
        tell(f"{outcome:10} {mutant.title}" + (f"  [{reason[:80]}]" if reason else ""))
        if count and len(verdicts) >= count:
            break
    return verdicts


def share(verdicts: Sequence[MutantResult]) -> tuple[int, int, float]:
    """Returns the number of killed mutants, of mutants that are not equivalent, and the share."""
    counts = Counter(result.outcome for result in verdicts)
    meant = counts["killed"] + counts["survived"]
    return counts["killed"], meant, counts["killed"] / max(meant, 1)


def changed_modules(ref: str) -> set[str]:
    """Returns the modules of adapters that differ from a commit."""
    words = ["git", "diff", "--name-only", ref, "--", "adapters"]
    names = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [Path(name).relative_to("adapters") for name in names.split() if name.endswith(".py")]
    return {".".join(path.with_suffix("").parts) for path in paths}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool; the exit code is 1 if a mutant survives."""
    parser = described(__doc__)
    parser.add_argument("--count", type=int, default=300, help="the number of mutants; 0 means all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="TEXT", help="a part of the module's name")
    parser.add_argument("--changed", metavar="COMMIT", help="only modules that differ from it")
    args = parser.parse_args(argv)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    among = changed_modules(args.changed) if args.changed else None

    def chosen(name: str) -> bool:
        return args.only in name and (among is None or name in among)

    begun = time.monotonic()
    verdicts = run(args.count, args.seed, chosen, tell=lambda line: print(line, flush=True))
    killed, meant, part = share(verdicts)
    seconds = time.monotonic() - begun
    print(f"{len(verdicts)} mutants in {seconds:.0f} s: {killed} of {meant} killed ({part:.1%})")
    return int(killed < meant)


if __name__ == "__main__":
    raise SystemExit(main())
