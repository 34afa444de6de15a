# SPDX-License-Identifier: Apache-2.0
"""The operators that the code of an adapter may write, read from the code.

A call such as `op.Slice(x, starts)` spells its operator, and so does Python's operator between
values. A form that is younger than its operator carries the opset in which it begins: `Slice-10`.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

from opshift.author.emitted import operator_of
from opshift.author.infix import Infix
from opshift.opsets import schemas
from opshift.text import qualified

_METHODS = {
    ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.Div: "__truediv__",
    ast.Mod: "__mod__", ast.FloorDiv: "__floordiv__", ast.BitAnd: "__and__", ast.BitOr: "__or__",
    ast.Lt: "__lt__", ast.Gt: "__gt__", ast.USub: "__neg__", ast.Invert: "__invert__",
}  # fmt: skip
_NUMBERS = frozenset({  # functions of Python whose results are no values
    "abs", "all", "any", "bool", "dict", "divmod", "float", "frozenset", "int", "isinstance",
    "len", "max", "min", "pow", "range", "round", "set", "str", "sum", "type",
})  # fmt: skip
_ENGINE = ("opshift.author.", "opshift.adapter", "opshift.errors", "opshift.opsets")
_Scope = Mapping[str, "list[ast.expr | bool]"]


def operators(function: Callable[..., Any]) -> frozenset[str]:
    """The operators that a function, and all that it calls, may write."""
    found: set[str] = set()
    waiting: list[Any] = [function]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, str):
            if one in _known(""):
                found.add(one)
        elif isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, tuple | list | set | frozenset):
            waiting += one
        elif isinstance(one, functools.partial):
            waiting += [one.func, *one.args, *one.keywords.values()]
        elif isinstance(one, MethodType):
            waiting.append(one.__func__)
        elif isinstance(one, FunctionType):
            if not one.__module__.startswith(_ENGINE):
                names, reached = _spelled(one.__code__, one.__module__)
                found |= names
                waiting += _reached(one, reached)
        elif (run := getattr(one, "run", None)) is not None and callable(one):
            waiting.append(run)  # an adapter that another one calls
    return frozenset(found)


def _reached(function: FunctionType, names: Iterable[str]) -> Iterator[Any]:
    """What a function reads from around it, and its defaults."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for name in names:
        if name in cells:
            yield _content(cells[name])
        elif name in function.__globals__:
            yield function.__globals__[name]
    yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # of a function that is not finished
        return None


@functools.cache
def _known(domain: str) -> frozenset[str]:
    return frozenset(schemas.operators(domain))


@functools.cache
def _spelled(code: CodeType, module: str) -> tuple[frozenset[str], frozenset[str]]:
    """The operators that the text of a function spells, and the names that it reads."""
    reader = _Reader(module)
    for node in _nodes_of(code, module):
        reader.read(node)
    return frozenset(reader.found), frozenset(reader.names)


def _nodes_of(code: CodeType, module: str) -> list[ast.FunctionDef | ast.Lambda]:
    """The definitions at the place of a function: several lambdas may share a line."""
    return _places(module).get((code.co_firstlineno, code.co_name == "<lambda>"), [])


@functools.cache
def _places(module: str) -> Mapping[tuple[int, bool], list[ast.FunctionDef | ast.Lambda]]:
    found: dict[tuple[int, bool], list[ast.FunctionDef | ast.Lambda]] = {}
    for node in ast.walk(_text(module)):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            found.setdefault((_first_line(node), isinstance(node, ast.Lambda)), []).append(node)
    return found


def _first_line(node: ast.FunctionDef | ast.Lambda) -> int:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return min([node.lineno, *(one.lineno for one in decorators)])


@functools.cache
def _text(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


@functools.cache
def _told(module: str) -> Mapping[str, bool]:
    """Whether the functions, fields and properties that a module defines are values."""
    found: dict[str, bool] = {}
    for node in ast.walk(_text(module)):
        if isinstance(node, ast.FunctionDef):
            found[node.name] = found.get(node.name, False) or _is_value(node.returns)
        elif isinstance(node, ast.ClassDef):
            for one in node.body:
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                    name = one.target.id
                    found[name] = found.get(name, False) or _is_value(one.annotation)
    return found


def _form(op: str, schema: schemas.Schema) -> str:
    """An operator in a form that it has from an opset on."""
    return op if schema.since == schemas.history("", op)[0].since else f"{op}-{schema.since}"


@functools.cache
def _infix(kind: Any) -> frozenset[str]:
    """The operators that Python's operator writes between values."""
    if kind not in _METHODS:
        return frozenset()
    method = vars(Infix)[_METHODS[kind]]
    names, _ = _spelled(method.__code__, method.__module__)
    return frozenset(map(operator_of, names))


def _is_value(annotation: ast.expr | None) -> bool:
    """Whether something with this annotation may be or hold a value."""
    return annotation is None or "Value" in ast.unparse(annotation).replace("ValueError", "")


def _is_collection(node: ast.expr) -> bool:
    """Whether an expression is surely a list, a set or the like, which have their own operators."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("set", "frozenset", "dict")
    return isinstance(
        node, ast.Set | ast.SetComp | ast.Dict | ast.DictComp | ast.List | ast.ListComp | ast.Tuple
    )


class _Reader:
    """Reads one function, with the functions inside it."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.globals = vars(importlib.import_module(module))
        self.found: set[str] = set()
        self.names: set[str] = set()
        self.locals: dict[str, list[ast.expr | bool]] = {}
        self.asking: set[str] = set()
        self.called: set[int] = set()

    def read(self, function: ast.AST) -> None:
        for node in ast.walk(function):
            self._define(node)
        skipped = {
            id(part)
            for node in ast.walk(function)
            if isinstance(node, ast.Compare) and not isinstance(node.ops[0], ast.Lt | ast.Gt)
            for part in ast.walk(node)
        }
        body = function.body if isinstance(function, ast.FunctionDef) else [function]
        self.called = {id(n.func) for n in ast.walk(function) if isinstance(n, ast.Call)}
        for node in (inner for one in body for inner in ast.walk(one)):
            self._look(node, skipped=id(node) in skipped)

    def _define(self, node: ast.AST) -> None:
        """Notes what the names of a function stand for."""
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                told: list[ast.expr | bool] = [_is_value(one.annotation)]
                self.locals.setdefault(one.arg, []).extend(told)
            for extra in (node.args.vararg, node.args.kwarg):
                if extra is not None:
                    self.locals.setdefault(extra.arg, []).append(_is_value(extra.annotation))
            if isinstance(node, ast.FunctionDef):
                self.locals.setdefault(node.name, []).append(_is_value(node.returns))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            self.locals.setdefault(node.target.id, []).append(_is_value(node.annotation))
        elif isinstance(node, ast.AugAssign | ast.NamedExpr):
            self._assign(node.target, node.value)
        elif isinstance(node, ast.For | ast.comprehension):
            self._loop(node.target, node.iter)

    def _loop(self, target: ast.expr, source: ast.expr) -> None:
        """The targets of a loop, each with its own source where that is told."""
        name = (
            source.func.id
            if isinstance(source, ast.Call) and isinstance(source.func, ast.Name)
            else ""
        )
        if (
            name in ("zip", "enumerate")
            and isinstance(target, ast.Tuple)
            and isinstance(source, ast.Call)
        ):
            sources = [*([ast.Constant(0)] if name == "enumerate" else []), *source.args]
            if len(sources) == len(target.elts):
                for one, given in zip(target.elts, sources, strict=True):
                    self._assign(one, given)
                return
        if name == "range":
            source = ast.Constant(0)
        self._assign(target, source)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Starred):
            target = target.value
        if isinstance(target, ast.Name):
            self.locals.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple | ast.List):
            parts: list[ast.expr] = [value] * len(target.elts)
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                parts = list(value.elts)
            for one, part in zip(target.elts, parts, strict=True):
                self._assign(one, part)

    # -- what is spelled ---------------------------------------------------------------------

    def _look(self, node: ast.AST, *, skipped: bool) -> None:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if not skipped:
                self.names.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not skipped:
            if node.value in _known(""):
                self.found.add(node.value)
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.Attribute):
            if node.attr in _known("") and id(node) not in self.called:
                self.found.add(_form(node.attr, schemas.history("", node.attr)[-1]))
        elif isinstance(node, ast.BinOp | ast.AugAssign):
            sides = (
                (node.left, node.right)
                if isinstance(node, ast.BinOp)
                else (node.target, node.value)
            )
            if any(map(self.may_be_value, sides)) and not any(map(_is_collection, sides)):
                self._write(type(node.op))
        elif isinstance(node, ast.UnaryOp):
            if self.may_be_value(node.operand):
                self._write(type(node.op))
        elif isinstance(node, ast.Compare) and any(
            map(self.may_be_value, (node.left, *node.comparators))
        ):
            for operator in node.ops:
                self._write(type(operator))

    def _write(self, kind: Any) -> None:
        self.found.update(_infix(kind))

    def _call(self, node: ast.Call) -> None:
        if not isinstance(node.func, ast.Attribute):
            return
        if node.func.attr in _known(""):
            self.found.add(self._called_form(node.func.attr, node))
        if node.func.attr == "emit" and node.args and isinstance(node.args[0], ast.Constant):
            domain = next((self._constant(k.value) for k in node.keywords if k.arg == "domain"), "")
            self.found.add(qualified(str(domain or ""), str(node.args[0].value)))

    def _called_form(self, op: str, call: ast.Call) -> str:
        """The operator in the first form that has the inputs and names of a call."""
        history = [one for one in schemas.history("", op) if not one.deprecated]
        newest = history[-1]
        spread = any(isinstance(one, ast.Starred) for one in call.args)
        count = newest.max_input if spread else len(call.args)
        for one in history:
            enough = one.max_input < 0 or 0 <= count <= one.max_input
            if enough and all(self._fits(k, one, newest) for k in call.keywords):
                return _form(op, one)
        return _form(op, newest)

    def _fits(self, keyword: ast.keyword, schema: schemas.Schema, newest: schemas.Schema) -> bool:
        name = keyword.arg
        if name is None or name in ("outputs", "domain"):
            return True
        if self.may_be_value(keyword.value) and name in newest.input_positions:
            return name in schema.input_positions
        here, last = schema.attributes.get(name), newest.attributes.get(name)
        return here is not None and (last is None or here.kind == last.kind)

    def _constant(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        return self.globals.get(node.id) if isinstance(node, ast.Name) else None

    # -- what may be a value -----------------------------------------------------------------

    def may_be_value(self, node: ast.expr) -> bool:
        """Whether an expression may be a value of the graph, and not surely a number."""
        match node:
            case ast.Constant() | ast.JoinedStr() | ast.Compare() | ast.Lambda() | ast.Dict():
                return isinstance(node, ast.Compare) and any(
                    map(self.may_be_value, (node.left, *node.comparators))
                )
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(attr=attr):
                return self._told(attr)
            case ast.Subscript(value=value):
                return (isinstance(value, ast.Name) and value.id == "node") or self.may_be_value(
                    value
                )
            case ast.Call():
                return self._result(node)
            case ast.BinOp(left=left, right=right):
                return self.may_be_value(left) or self.may_be_value(right)
            case ast.UnaryOp(operand=inner) | ast.Starred(value=inner) | ast.NamedExpr(value=inner):
                return self.may_be_value(inner)
            case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                return any(map(self.may_be_value, parts))
            case ast.IfExp(body=body, orelse=orelse):
                return self.may_be_value(body) or self.may_be_value(orelse)
            case ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner) | ast.SetComp(elt=inner):
                return self.may_be_value(inner)
        return True

    def _name(self, name: str) -> bool:
        if name in self.asking:
            return False
        if name not in self.locals:
            return callable(self.globals.get(name)) and not isinstance(self.globals[name], type)
        self.asking.add(name)
        try:
            return any(
                one if isinstance(one, bool) else self.may_be_value(one)
                for one in self.locals[name]
            )
        finally:
            self.asking.discard(name)

    def _told(self, attr: str) -> bool:
        """Whether an attribute of something may be a value."""
        if attr[:1].isupper():
            return attr in _known("")
        for module in ("opshift.author.node", self.module):
            told = _told(module).get(attr)
            if told is not None:
                return told
        return any(
            _told(module).get(attr, False)
            for module in {getattr(one, "__module__", "") for one in self.globals.values()}
            if isinstance(module, str) and module.startswith(self.module.partition(".")[0])
        )

    def _result(self, node: ast.Call) -> bool:
        match node.func:
            case ast.Name(id=name):
                if name in _NUMBERS:
                    return False
                if name in self.locals:
                    return self._name(name)
                called = self.globals.get(name)
                told = getattr(called, "__annotations__", {}).get("return")
                if isinstance(called, FunctionType) and told is not None:
                    return "Value" in str(told)
                if isinstance(called, type):
                    return False
                return any(map(self.may_be_value, node.args))
            case ast.Attribute(attr="const"):
                return bool(node.args)
            case ast.Attribute(value=ast.Name(id="np")):
                return False
            case ast.Attribute(attr=attr) if attr[:1].isupper():
                return attr in _known("")
            case ast.Attribute(attr=attr) if attr in (
                "same",
                "emit",
                "inline",
                "expand",
                "reduce",
                "same_but",
            ):
                return True
            case ast.Attribute(attr=attr):
                return self._told(attr)
        return True
