# SPDX-License-Identifier: Apache-2.0
"""The description of a wanted result: versions by domain, IR version, runtime, permissions."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

from opshift import option_texts, terms
from opshift.assumptions import NAMES, Assumption
from opshift.convert.request_values import (
    flag,
    path,
    python_numbers,
    shapes_of,
    sizes_of,
    types_of,
    whole,
)
from opshift.errors import BadTarget
from opshift.opsets.identity import normal
from opshift.opsets.wanted import IrVersion, Wanted, read_target
from opshift.records import dataclass
from opshift.text import suggestion
from opshift.versions import NEWEST_IR

Target: TypeAlias = "int | Mapping[str, int]"
Check: TypeAlias = 'bool | Literal["default", "full", "none"]'
UnknownDomains: TypeAlias = Literal["keep", "refuse"]
AssumptionName: TypeAlias = Literal["no-zero-dims"]
NOTHING: Mapping[str, int] = {}
NODE_BUDGET = 20_000  # added nodes after which a question such as `lowest` gives up; takes seconds


class ConversionOptions(TypedDict, total=False):
    """The options of every converting function; the class `Request` has their default values."""

    at_least: Mapping[str, int] | int | None
    ir_version: IrVersion
    allow_approximate: bool
    assume: Collection[AssumptionName]
    check: Check
    drop_metadata: bool
    strict_ir: bool
    drop_training: bool
    prune_imports: bool | None
    unknown_domains: UnknownDomains
    domains: Collection[str] | None
    keep_unrunnable: bool
    shape: Mapping[str, Sequence[int]] | None
    dim: Mapping[str, int] | None
    types: Mapping[str, str] | None
    keep_io_types: bool
    inputs: str | os.PathLike[str] | None
    minimal: bool
    modernize: bool
    bump_model_version: bool
    stamp: bool


# "default" checks all changes; "full" also calls onnx's checker for the whole model.
CHECKS: dict[Any, Any] = {True: True, False: False, "default": True, "full": "full", "none": False}


@dataclass(frozen=True, slots=True)
class Request:
    """The wanted result of a conversion, which `convert_version` accepts in place of a target.

    Attributes
    ----------
    target : mapping of str to int
        The target versions by domain. `Request.of` also takes an opset or the name of a runtime.
    **options
        The options of a conversion.
    node_budget : int, optional
        The number of nodes that a trial conversion may add to the model.

    Examples
    --------
    >>> import opshift
    >>> wanted = opshift.Request.of(13, ir_version=7)
    >>> opshift.convert_version("model.onnx", wanted).ir_version
    7
    """

    target: Target | Wanted = dataclasses.field(default_factory=dict)
    ir_version: IrVersion = "auto"
    allow_approximate: bool = False
    assume: Collection[AssumptionName] = ()  # names of assumptions that the result may depend on
    check: Check = True  # a key of CHECKS; stored as its value
    drop_metadata: bool = False
    strict_ir: bool = False  # unused content such as metadata can also require an IR version
    drop_training: bool = False
    prune_imports: bool | None = None  # None: only if the target is a runtime
    unknown_domains: UnknownDomains = "keep"
    domains: Collection[str] | None = None  # the domains that the result may use; None: any
    keep_unrunnable: bool = False  # return a result that the runtime cannot run
    shape: Mapping[str, Sequence[int]] | None = None  # new shapes of inputs, by name
    dim: Mapping[str, int] | None = None  # sizes of symbolic dimensions, by symbol
    types: Mapping[str, str] | None = None  # new element types, by old element type
    keep_io_types: bool = False  # with `types`: graph inputs and outputs keep their types
    # sample inputs on which narrower types must not overflow
    inputs: str | os.PathLike[str] | None = None
    minimal: bool = False
    modernize: bool = False
    bump_model_version: bool = False
    stamp: bool = False  # adds producer notes to the metadata of a changed result
    node_budget: int | None = None  # nodes that steps may add before a rehearsal gives up

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", python_numbers(self.target))
        object.__setattr__(self, "ir_version", python_numbers(self.ir_version))
        require_ir(self.ir_version)
        if self.unknown_domains not in ("keep", "refuse"):
            raise BadTarget(f"unknown_domains is {self.unknown_domains!r}; give 'keep' or 'refuse'")
        if self.minimal and self.target not in (None, NOTHING):
            minimal = terms.name_of("minimal")
            raise BadTarget(f"{minimal} and a target are both given; give one of them")
        for name in _FLAGS:
            object.__setattr__(self, name, flag(name, getattr(self, name)))
        if self.prune_imports is not None:
            object.__setattr__(self, "prune_imports", flag("prune_imports", self.prune_imports))
        if not isinstance(self.check, (bool, str)) or self.check not in CHECKS:
            raise BadTarget(f"check is {self.check!r}; give 'default', 'full' or 'none'")
        object.__setattr__(self, "check", CHECKS[self.check])
        object.__setattr__(self, "assume", _assumed(self.assume))
        if self.domains is not None:
            object.__setattr__(self, "domains", _allowed(self.domains))
        object.__setattr__(self, "shape", shapes_of(self.shape))
        object.__setattr__(self, "dim", sizes_of(self.dim))
        object.__setattr__(self, "types", types_of(self.types))
        if self.inputs is not None:
            object.__setattr__(self, "inputs", path("inputs", self.inputs))
        if self.node_budget is not None:
            object.__setattr__(self, "node_budget", whole("node_budget", self.node_budget))

    @staticmethod
    def of(target: AnyTarget = None, **options: Any) -> Request:
        """Returns the request for a target; the options override those of a `Request` as target."""
        _require_known(options)
        at_least = _floors(python_numbers(options.pop("at_least", None)))
        if isinstance(target, Request):
            if at_least is not None:
                raise BadTarget(
                    "at_least belongs to the target; pass it to Request.of together with the target"
                )
            return replace(target, **options)
        if isinstance(target, Wanted):
            return Request(target, **options)
        return Request(read_target(python_numbers(target), at_least), **options)

    @property
    def checks(self) -> bool:
        """Whether the conversion checks anything."""
        return bool(self.check)

    @property
    def assumptions(self) -> frozenset[Assumption]:
        """The assumptions that the result may depend on."""
        return frozenset(map(Assumption, self.assume))

    @property
    def prunes(self) -> bool:
        """Whether the conversion removes imports that no node uses."""
        return self.is_for_runtime if self.prune_imports is None else self.prune_imports

    @property
    def is_for_runtime(self) -> bool:
        """Whether the target is a runtime."""
        return isinstance(self.target, Wanted) and self.target.release is not None

    @property
    def drops(self) -> tuple[str, ...]:
        """The options that allow the removal of content, if they are set."""
        return ("drop_metadata",) * self.drop_metadata + ("drop_training",) * self.drop_training

    @property
    def only_ir(self) -> bool:
        """Whether the request changes only the IR version."""
        asked = replace(
            self, check="default", allow_approximate=False, assume=(), drop_metadata=False,
            strict_ir=False, drop_training=False, prune_imports=self.prune_imports or None,
            bump_model_version=False, stamp=False,
        )  # fmt: skip
        return isinstance(self.ir_version, int) and asked == Request({}, self.ir_version)

    def for_inputs(self, inputs: Collection[str], dims: Collection[str]) -> Request:
        """Returns the request for a model that has only these inputs and dimension symbols."""
        shape = {name: sizes for name, sizes in (self.shape or {}).items() if name in inputs}
        dim = {name: size for name, size in (self.dim or {}).items() if name in dims}
        return replace(self, shape=shape, dim=dim)

    def for_domains(self, domains: Collection[str]) -> Request:
        """Returns the request for a model that imports only these domains."""

        def own(asked: Mapping[str, int]) -> dict[str, int]:
            return {domain: to for domain, to in asked.items() if normal(domain) in domains}

        target = self.target
        if isinstance(target, Wanted):
            exact, at_least = own(target.exact), own(target.at_least)
            return replace(self, target=replace(target, exact=exact, at_least=at_least))
        return replace(self, target=own(target) if isinstance(target, Mapping) else target)


def request_or_default(request: object) -> Request:
    """Returns a request, or the default one for None; raises TypeError for any other object."""
    if request is not None and not isinstance(request, Request):
        raise TypeError(f"request must be an opshift.Request, not {type(request).__name__}")
    return request or Request()


def require_effects(request: Request, *, verifies: bool | None = None) -> Request:
    """Returns the request; raises BadTarget for an option that has no effect without another one.

    `verifies` is the option of the caller that runs models on the inputs, if the caller has it.
    """
    given = {"types": bool(request.types), "for": request.is_for_runtime}
    if verifies is not None:
        given["verify"] = verifies
    for name, words in option_texts.NEEDS.items():
        needed = [word for word in words if word in given]
        idle = getattr(request, name, None) not in (None, False)
        if idle and not any(given[word] for word in needed):
            shown = ["a runtime as target" if word == "for" else word for word in needed]
            raise BadTarget(option_texts.without_effect(terms.name_of(name), shown))
    return request


AnyTarget: TypeAlias = "Target | str | Wanted | Request | None"
_Function = TypeVar("_Function", bound=Callable[..., Any])


def takes_options(function: _Function) -> _Function:
    """Adds all options to the signature and the docstring of a function."""
    signature = inspect.signature(function)
    shown = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    defaults = {field.name: field.default for field in dataclasses.fields(Request)}
    for name, kind in ConversionOptions.__annotations__.items():
        default = defaults.get(name)
        kind = getattr(kind, "__forward_arg__", kind)  # the annotation as a string
        shown.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
        )
    function.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    if function.__doc__:  # python -OO removes docstrings
        function.__doc__ = function.__doc__.replace(
            "    **options\n        The options of a conversion.\n",
            option_texts.parameters([*ConversionOptions.__annotations__], "    ") + "\n",
        )
    return function


_FLAGS = tuple(field.name for field in dataclasses.fields(Request) if field.default is False)


_OPTIONS = ("at_least", *(one.name for one in dataclasses.fields(Request) if one.name != "target"))
if Request.__doc__:  # python -OO removes docstrings
    Request.__doc__ = Request.__doc__.replace(
        "    **options\n        The options of a conversion.\n",
        option_texts.parameters(
            [name for name in _OPTIONS[1:] if name in option_texts.OPTION_TEXTS], "    "
        )
        + "\n",
    )


def _require_known(options: Mapping[str, object]) -> None:
    """Raises TypeError for an unknown option, and suggests a known option."""
    for name in options:
        if name not in _OPTIONS:
            is_version = "opset" in name or "target" in name
            cure = "; give a version as `target`" if is_version else suggestion(name, _OPTIONS)
            raise TypeError(f"there is no option {name!r}{cure}")


def _is_names(value: object) -> bool:
    """Returns whether a value is a collection of strings, and not a string itself."""
    if isinstance(value, str) or not isinstance(value, Collection):
        return False
    return all(isinstance(name, str) for name in value)


def _floors(at_least: object) -> Mapping[str, int] | None:
    """Returns the versions of `at_least`; raises BadTarget for a version that is not a number."""
    if at_least is None:
        return None
    asked: Mapping[str, Any] = at_least if isinstance(at_least, Mapping) else {"": at_least}
    for domain, version in asked.items():
        if isinstance(version, bool) or not isinstance(version, int):
            shown = domain or "ai.onnx"
            raise BadTarget(f"at_least of {shown} is {version!r}; give a whole number")
    return asked


def _allowed(domains: Collection[str]) -> tuple[str, ...]:
    """Returns the domains that a result may use, without duplicates."""
    if not _is_names(domains):
        raise BadTarget(f"domains is {domains!r}; give a list of names such as ['ai.onnx']")
    if not domains:
        raise BadTarget(f"{terms.name_of('domains')} is empty; give at least 'ai.onnx'")
    return tuple(sorted({normal(domain) for domain in domains}))


def _assumed(names: Collection[str]) -> tuple[str, ...]:
    """Returns the names of assumptions, without duplicates; raises BadTarget for unknown names."""
    if not _is_names(names):
        raise BadTarget(f"assume is {names!r}; give a list of names such as {list(NAMES)}")
    for name in names:
        if name not in NAMES:
            raise BadTarget(f"the assumption {name!r} does not exist; give {' or '.join(NAMES)}")
    return tuple(sorted({*names}))


def require_ir(version: str | int) -> None:
    """Raises BadTarget for an IR version that does not exist."""
    if version in ("auto", "keep"):
        return
    if isinstance(version, bool) or not isinstance(version, int) or not 3 <= version <= NEWEST_IR:
        raise BadTarget(
            f"{terms.name_of('ir_version')} is {version!r}; give 'auto', 'keep' or a number from 3"
            f" to {NEWEST_IR}"
        )
