# SPDX-License-Identifier: Apache-2.0
"""Lists the options of a conversion; Python and the command show the same text for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class OptionText(NamedTuple):
    """The type of an option, as docstrings name it, and the text about its effect."""

    type: str
    text: str


OPTION_TEXTS: dict[str, OptionText] = {
    "at_least": OptionText(
        "int or mapping, optional",
        "Raise each domain to at least this version; higher versions of the model stay.",
    ),
    "ir_version": OptionText(
        'int or str, default "auto"',
        'The IR version of the result. "auto" writes the IR version that onnx paired with the'
        ' opset, unless the content requires a higher one. "keep" keeps the IR version of the'
        " model. A number requires exactly this IR version.",
    ),
    "minimal": OptionText(
        "bool, default False",
        "Convert to the lowest versions at which every operator keeps its meaning.",
    ),
    "allow_approximate": OptionText(
        "bool, default False",
        "Allow results that are not exactly equal. The report lists each approximation.",
    ),
    "assume": OptionText(
        "list of str, default ()",
        'Rely on assumptions about the model. "no-zero-dims": no dimension of a tensor is 0, so a'
        " Reshape may drop allowzero. The report lists each node that relies on an assumption.",
    ),
    "drop_metadata": OptionText(
        "bool, default False",
        "Remove metadata for which the IR version of the result has no field.",
    ),
    "strict_ir": OptionText(
        "bool, default False",
        "Refuse content that readers of the IR version ignore, such as metadata of nodes. By"
        " default the result keeps this content, and a note lists it.",
    ),
    "drop_training": OptionText(
        "bool, default False",
        "Remove training information if the IR version of the result is below 7.",
    ),
    "prune_imports": OptionText(
        "bool, optional",
        "Remove imports of domains that no node uses. By default, opshift removes them only if a"
        " runtime is named.",
    ),
    "unknown_domains": OptionText(
        '{"keep", "refuse"}',
        "What to do with operators that no installed package describes: keep them as they are, or"
        " refuse the model.",
    ),
    "keep_unrunnable": OptionText(
        "bool, default False",
        "Write the result even if the named runtime cannot run it. The report lists the reasons.",
    ),
    "domains": OptionText(
        "list of str, optional",
        "The only operator domains that the result may use. With ai.onnx as the only one,"
        " operators of com.microsoft are written as operators of ai.onnx.",
    ),
    "shape": OptionText(
        "mapping, optional",
        "Fix the shapes of inputs, so that nodes which compute sizes become constants. The report"
        " lists each shape, because the result is right only for these shapes.",
    ),
    "dim": OptionText(
        "mapping, optional",
        "Set named dimensions of inputs, such as a batch size, to fixed numbers.",
    ),
    "types": OptionText(
        "mapping, optional",
        "Change element types in the whole model, such as bfloat16 to float. The report lists the"
        " change as an approximation, and every place that keeps its type.",
    ),
    "keep_io_types": OptionText(
        "bool, default False",
        "When element types change, keep the element types of the model's inputs and outputs.",
    ),
    "inputs": OptionText(
        "path, optional",
        "An .npz file or a folder of test data with inputs. opshift runs models on them to verify"
        " a result, and to find values that a narrower float type cannot hold. By default it"
        " generates inputs.",
    ),
    "modernize": OptionText(
        "bool, default False",
        "Replace a group of nodes by one newer operator, such as Gelu, if the operator computes"
        " exactly the same.",
    ),
    "stamp": OptionText(
        "bool, default False",
        "Add a line to the metadata of the result with the build of opshift, the versions and the"
        " adapters. `opshift audit` reads this line.",
    ),
    "bump_model_version": OptionText(
        "bool, default False",
        "Raise the version of the model itself, by the rules of SemVer for changes of interfaces.",
    ),
    "check": OptionText(
        '{"default", "full", "none"}',
        'Which checks run. "default" checks the model, each step and the result. "full" adds the'
        ' two checks of onnx for whole models. "none" runs no check.',
    ),
}

# Options without an effect of their own, and the options of which each needs at least one. The
# option `for` of the command is a runtime as `target` in Python.
NEEDS: dict[str, tuple[str, ...]] = {
    "inputs": ("verify", "runtime", "types"),
    "keep_io_types": ("types",),
    "keep_unrunnable": ("for", "runtime"),
    "targets": ("for", "runtime", "runtimes", "report"),
}


def without_effect(name: str, needed: Sequence[str]) -> str:
    """Returns the message about an option that has no effect without one of the needed options."""
    *first, last = needed
    listed = f"{', '.join(first)} or {last}" if first else last
    return f"{name} has no effect here; add {listed}, or leave {name} out"


def help_of(name: str) -> str:
    """Returns the text of an option for the help of a command, without its quotation marks."""
    return OPTION_TEXTS[name].text.replace('"', "")


def parameters(names: list[str], indent: str) -> str:
    """Returns options as entries of the section `Parameters` of a docstring in NumPy style."""
    import textwrap

    lines = []
    for name in names:
        kind, text = OPTION_TEXTS.get(name, OptionText("optional", ""))
        lines.append(f"{indent}{name} : {kind}")
        lines += textwrap.wrap(
            text, 96, initial_indent=f"{indent}    ", subsequent_indent=f"{indent}    "
        )
    return "\n".join(lines)
