# SPDX-License-Identifier: Apache-2.0
"""Generates mutants: small changes of meaning in functions, made in the syntax tree."""

from __future__ import annotations

import ast
import copy
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.Mod: ast.Add,
}  # fmt: skip
_PAIRS = (
    "Add Sub|Mul Div|Min Max|ReduceMin ReduceMax|And Or|Less Greater|Floor Ceil"
    "|ReduceSum ReduceMean|LessOrEqual GreaterOrEqual|Sin Cos|Exp Log"
)
SWAPPED = {
    name: other for pair in _PAIRS.split("|") for name, other in (pair.split(), pair.split()[::-1])
}
ORDERED = frozenset(
    ("Sub", "Div", "MatMul", "Pow", "Mod", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change in one function; its name has no line numbers, so that it survives edits."""

    module: str
    function: str
    name: str
    first: int
    last: int
    source: Source

    @property
    def title(self) -> str:
        """A text with the module (without its package), the function and the change."""
        return f"{self.module.partition('.')[2]} {self.function} {self.name}"


def mutants(module: ModuleType) -> Iterator[Mutant]:
    """Yields every mutant of the module's functions, in the order of the source."""
    path = Path(str(module.__file__))
    for name, function in _functions(ast.parse(path.read_text())):
        if found(module, name) is not None:
            yield from _of_function(module.__name__, path, name, function)


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yields the functions of a module and the methods of its classes, with their names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            methods = (method for method in node.body if isinstance(method, ast.FunctionDef))
            yield from ((f"{node.name}.{method.name}", method) for method in methods)


def found(module: ModuleType, name: str) -> FunctionType | None:
    """Returns the function or method of a name, also if a decorator has replaced it."""
    owner, _, method = name.rpartition(".")
    value = vars(getattr(module, owner)).get(method) if owner else getattr(module, name, None)
    for _ in range(3):
        value = inspect.unwrap(value) if callable(value) else value  # such as a cache
        if isinstance(value, FunctionType):
            return value if value.__module__ == module.__name__ else None
        held = (getattr(value, part, None) for part in ("run", "fget", "func", "__func__"))
        value = next((candidate for candidate in held if candidate is not None), None)
    return None


def _of_function(module: str, path: Path, name: str, function: ast.FunctionDef) -> Iterator[Mutant]:
    seen = Counter[str]()
    for place, node in enumerate(_body(function)):
        for change in CHANGES:
            changed = copy.copy(node)  # a change only sets fields of the node itself
            kind = change(changed)
            if not kind or ast.dump(changed) == ast.dump(node):
                continue
            words = f"{kind}: {_short(ast.unparse(node))} -> {_short(ast.unparse(changed))}"
            seen[words] += 1
            number = f" ({seen[words]})" if seen[words] > 1 else ""
            asked = node.test if isinstance(node, (ast.If, ast.IfExp)) else node
            first = getattr(asked, "lineno", function.lineno)
            last = getattr(asked, "end_lineno", first)
            source = Source(path, function, place, change)
            yield Mutant(module, name, f"{words}{number}", first, last, source)


@dataclass(frozen=True, slots=True)
class Source:
    """The position of a mutant in the source; the mutant is compiled when it runs."""

    path: Path
    function: ast.FunctionDef
    place: int
    change: Callable[[Any], str]

    def code(self) -> CodeType:
        """Compiles the function with the change."""
        changed = copy.deepcopy(self.function)
        changed.decorator_list = []
        self.change(next(islice(_body(changed), self.place, None)))
        future = ast.parse("from __future__ import annotations").body
        holder = ast.parse("class Holder: pass").body[0]  # `super()` needs a class around it
        assert isinstance(holder, ast.ClassDef)
        holder.body = [changed]
        body: ast.stmt = holder if _calls_super(changed) else changed
        tree = ast.fix_missing_locations(ast.Module([*future, body], []))
        return _code_of(
            self.function.name, compile(tree, str(self.path), "exec", dont_inherit=True)
        )


def _calls_super(function: ast.FunctionDef) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "super" for part in ast.walk(function))


def _code_of(name: str, code: CodeType) -> CodeType:
    """Returns the code object of a function inside the code of a module, also of a method."""
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return next((code for code in inner if code.co_name == name), None) or _code_of(name, inner[0])


def _body(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yields the syntax nodes that affect results, without docstrings, annotations and errors."""
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Raise, ast.Assert)):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.keyword) and node.arg == "strict":  # an assertion of zip
            continue
        yield node
        if _is_switch(node):
            continue
        fields = [value for name, value in ast.iter_fields(node) if name not in _SILENT]
        children: list[ast.AST] = []
        for value in fields:
            children += [
                part
                for part in (value if isinstance(value, list) else [value])
                if isinstance(part, ast.AST)
            ]
        waiting += reversed(children)


_SILENT = ("annotation", "returns", "type_params", "type_comment")


def _short(text: str) -> str:
    line = text.splitlines()[0]
    return line if len(line) <= 90 else line[:87] + "..."


# -- the changes ---------------------------------------------------------------------------------


def _constant(node: Any) -> str:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        node.value += 1
        return "constant off by one"
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        node.value = not node.value
        return "switch"
    if isinstance(node, ast.Constant) and type(node.value) is float:
        node.value = node.value * 2 + 1
        return "other number"
    return ""


def _is_switch(node: Any) -> bool:
    """Returns whether a node sets an attribute to 0 or 1 that turns a behaviour off or on."""
    switch = isinstance(node, ast.keyword) and node.arg in ("allowzero", "keepdims", "broadcast")
    return switch and isinstance(node.value, ast.Constant) and node.value.value in (0, 1)


def _switched(node: Any) -> str:
    if _is_switch(node):
        node.value = ast.Constant(1 - node.value.value)
        return "switch"
    return ""


def _axis(node: Any) -> str:
    """Changes an axis that is an expression; `_constant` changes axes that are numbers."""
    if isinstance(node, ast.keyword) and node.arg in ("axis", "axes", "perm", "keepdims"):
        if node.arg == "axis" and not isinstance(node.value, ast.Constant):
            node.value = ast.BinOp(node.value, ast.Sub(), ast.Constant(1))
            return "axis off by one"
        if node.arg == "perm":
            node.value = ast.Subscript(
                node.value, ast.Slice(step=ast.UnaryOp(ast.USub(), ast.Constant(1))), ast.Load()
            )
            return "order reversed"
    return ""


def _guard_negated(node: Any) -> str:
    if isinstance(node, (ast.If, ast.IfExp)):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return "guard negated"
    return ""


def _guard_dropped(node: Any) -> str:
    if isinstance(node, (ast.If, ast.IfExp)):
        node.test = ast.Constant(False)
        return "guard dropped"
    return ""


def _comparison(node: Any) -> str:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        node.ops = [COMPARISONS[type(node.ops[0])]()]
        return "comparison reversed"
    return ""


def _connective(node: Any) -> str:
    if isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return "and for or"
    return ""


def _arithmetic(node: Any) -> str:
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        node.op = ARITHMETIC[type(node.op)]()
        return "arithmetic"
    return ""


def _operator(node: Any) -> str:
    if (
        isinstance(node, ast.Attribute)
        and node.attr in SWAPPED
        and isinstance(node.value, ast.Name)
    ):
        node.attr = SWAPPED[node.attr]
        return "operator"
    return ""


def _operands(node: Any) -> str:
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    if named and node.func.attr in ORDERED and len(node.args) == 2:
        node.args = node.args[::-1]
        return "operands swapped"
    return ""


CHANGES: tuple[Callable[[Any], str], ...] = (
    _constant, _switched, _axis, _guard_negated, _guard_dropped, _comparison, _connective,
    _arithmetic, _operator, _operands,
)  # fmt: skip


def modules(package: str) -> list[ModuleType]:
    """Returns the imported modules of the package, by name."""
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith(f"{package}.") and getattr(module, "__file__", None)
    ]
