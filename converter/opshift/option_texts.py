# SPDX-License-Identifier: Apache-2.0
"""The options of a conversion, with one text for each, for Python and for the command."""

from __future__ import annotations

from typing import NamedTuple


class OptionText(NamedTuple):
    """The type of an option, as a docstring names it, and its effect."""

    type: str
    text: str


OPTION_TEXTS: dict[str, OptionText] = {
    "at_least": OptionText(
        "int or mapping, optional",
        "Raise these versions where the model has lower ones. Higher versions stay.",
    ),
    "ir_version": OptionText(
        'int or str, default "auto"',
        'The IR version of the result. "auto" gives the IR version that pairs with the opset, as'
        ' far as the content allows it. "keep" leaves the IR version of the model. A number demands'
        " this IR version.",
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
        "Refuse content that readers of the IR version skip, such as metadata of nodes. By default"
        " it stays in the model and a note lists it.",
    ),
    "drop_training": OptionText(
        "bool, default False",
        "Remove training information if the IR version of the result is below 7.",
    ),
    "prune_imports": OptionText(
        "bool, optional",
        "Remove imports of domains that no node uses. By default they are removed only if a runtime"
        " is named.",
    ),
    "unknown_domains": OptionText(
        '{"keep", "refuse"}',
        "What to do with operators that no installed package describes: keep them as they are, or"
        " refuse the model.",
    ),
    "keep_unrunnable": OptionText(
        "bool, default False",
        "Write the result also if the named runtime is known not to run it. The report lists why.",
    ),
    "domains": OptionText(
        "list of str, optional",
        "The only domains of operators in the result. ai.onnx alone writes the operators of"
        " com.microsoft in ai.onnx.",
    ),
    "shape": OptionText(
        "mapping, optional",
        "Fix the shapes of inputs. Nodes that compute sizes become constants. The report lists each"
        " shape, because the result is right for no other.",
    ),
    "dim": OptionText(
        "mapping, optional",
        "Fix dimensions of inputs by the names that the model gives them, such as a batch size.",
    ),
    "types": OptionText(
        "mapping, optional",
        "Change element types in the whole model, such as bfloat16 to float. The report lists the"
        " change as an approximation, and every place that keeps its type.",
    ),
    "keep_io_types": OptionText(
        "bool, default False",
        "With a change of types: the inputs and outputs of the model keep their types.",
    ),
    "inputs": OptionText(
        "path, optional",
        "Inputs on which models are run, an .npz file or a folder of test data: to verify a result,"
        " and to find values that a narrower float type does not hold. By default inputs are"
        " generated.",
    ),
    "modernize": OptionText(
        "bool, default False",
        "Write one node of a newer operator where several nodes compute exactly what it does, such"
        " as Gelu.",
    ),
    "stamp": OptionText(
        "bool, default False",
        "Add a line to the metadata of the result: the build of opshift, versions and adapters."
        " `opshift audit` reads it.",
    ),
    "bump_model_version": OptionText(
        "bool, default False",
        "Raise the version of the model itself by what happened to its interface, as SemVer asks.",
    ),
    "check": OptionText(
        '{"default", "full", "none"}',
        'How much is checked. "default" checks the model, each step and the result. "full" adds the'
        ' two checks of onnx for whole models. "none" checks nothing.',
    ),
}


def help_of(name: str) -> str:
    """The text of an option for the help of a command, with values without quotes."""
    return OPTION_TEXTS[name].text.replace('"', "")


def parameters(names: list[str], indent: str) -> str:
    """The options as entries of the section `Parameters` of a docstring in NumPy style."""
    import textwrap

    lines = []
    for name in names:
        kind, text = OPTION_TEXTS.get(name, OptionText("optional", ""))
        lines.append(f"{indent}{name} : {kind}")
        lines += textwrap.wrap(
            text, 96, initial_indent=f"{indent}    ", subsequent_indent=f"{indent}    "
        )
    return "\n".join(lines)
