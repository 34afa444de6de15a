# SPDX-License-Identifier: Apache-2.0
"""The options of a conversion, with one text for each, for Python and for the command."""

from __future__ import annotations

from typing import NamedTuple


class Wish(NamedTuple):
    """The type of an option, as a docstring names it, and its effect."""

    type: str
    text: str


WISHES: dict[str, Wish] = {
    "at_least": Wish(
        "int or mapping, optional",
        "Raise these versions where the model has lower ones. Higher versions stay.",
    ),
    "ir_version": Wish(
        'int or str, default "auto"',
        'The IR version of the result. "auto" gives the IR version that pairs with the opset, as'
        ' far as the content allows it. "keep" leaves the IR version of the model. A number demands'
        " this IR version.",
    ),
    "minimal": Wish(
        "bool, default False",
        "Convert to the lowest versions at which every operator keeps its meaning.",
    ),
    "allow_approximate": Wish(
        "bool, default False",
        "Allow results that are not exactly equal. The report lists each node that is not.",
    ),
    "assume": Wish(
        "list of str, default ()",
        'Rely on assumptions about the model. "no-zero-dims": no dimension of a tensor is 0, so a'
        " Reshape may drop allowzero. The report lists each node that relies on an assumption.",
    ),
    "drop_metadata": Wish(
        "bool, default False",
        "Remove metadata for which the IR version of the result has no field.",
    ),
    "strict_ir": Wish(
        "bool, default False",
        "Refuse content that readers of the IR version skip, such as metadata of nodes. By default"
        " it stays in the model and a note lists it.",
    ),
    "drop_training": Wish(
        "bool, default False",
        "Remove training information if the IR version of the result is below 7.",
    ),
    "prune_imports": Wish(
        "bool, optional",
        "Remove imports of domains that no node uses. By default they are removed only if a runtime"
        " is named.",
    ),
    "unknown_domains": Wish(
        '{"keep", "refuse"}',
        "What to do with operators that no installed package describes: keep them as they are, or"
        " refuse the model.",
    ),
    "keep_unrunnable": Wish(
        "bool, default False",
        "Write the result also if the named runtime is known not to run it. The report lists why.",
    ),
    "domains": Wish(
        "list of str, optional",
        "The only domains of operators in the result. ai.onnx alone writes the operators of"
        " com.microsoft in ai.onnx.",
    ),
    "shape": Wish(
        "mapping, optional",
        "Fix the shapes of inputs. Nodes that compute sizes become constants. The report lists each"
        " shape, because the result is right for no other.",
    ),
    "dim": Wish(
        "mapping, optional",
        "Fix dimensions of inputs by the names that the model gives them, such as a batch size.",
    ),
    "types": Wish(
        "mapping, optional",
        "Change element types in the whole model, such as bfloat16 to float. The report lists the"
        " change as an approximation, and every place that keeps its type.",
    ),
    "keep_io_types": Wish(
        "bool, default False",
        "With a change of types: the inputs and outputs of the model keep their types.",
    ),
    "inputs": Wish(
        "path, optional",
        "Inputs on which models are run, an .npz file or a folder of test data: to verify a result,"
        " and to find values that a narrower float type does not hold. By default inputs are"
        " generated.",
    ),
    "modernize": Wish(
        "bool, default False",
        "Write one node of a newer operator where several nodes compute exactly what it does, such"
        " as Gelu.",
    ),
    "stamp": Wish(
        "bool, default False",
        "Add a line to the metadata of the result: the build of opshift, versions and adapters."
        " `opshift audit` reads it.",
    ),
    "bump_model_version": Wish(
        "bool, default False",
        "Raise the version of the model itself by what happened to its interface, as SemVer asks.",
    ),
    "check": Wish(
        '{"default", "full", "none"}',
        'How much is checked. "default" checks the model, each step and the result. "full" adds the'
        ' two checks of onnx for whole models. "none" checks nothing.',
    ),
}


def help_of(name: str) -> str:
    """The text of a wish for the help of a command, with values without quotes."""
    return WISHES[name].text.replace('"', "")


def parameters(names: list[str], indent: str) -> str:
    """The wishes as entries of the section `Parameters` of a docstring in NumPy style."""
    import textwrap

    lines = []
    for name in names:
        kind, text = WISHES.get(name, Wish("optional", ""))
        lines.append(f"{indent}{name} : {kind}")
        lines += textwrap.wrap(
            text, 96, initial_indent=f"{indent}    ", subsequent_indent=f"{indent}    "
        )
    return "\n".join(lines)
