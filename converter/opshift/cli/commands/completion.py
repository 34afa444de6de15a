# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift completion`."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from opshift.cli import options
from opshift.cli.exit_codes import DONE
from opshift.cli.options import common
from opshift.cli.terminal import Output
from opshift.json_form import Form
from opshift.records import dataclass
from opshift.text import Line, Role

PROGRAM, VARIABLE = "opshift", "_OPSHIFT_COMPLETE"
# If .zshrc does not call compinit, zsh has no completion and no function `compdef`.
ZSH_READY = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n"
# bash splits words such as onnxruntime==1.10 at = and :, and completes only the last part.
BASH_WHOLE_WORDS = """
_opshift_whole_words() {
    local line="${COMP_LINE:0:COMP_POINT}" IFS=$' \\t\\n'
    read -a COMP_WORDS <<< "$line"
    [[ $line == *[[:space:]] ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    local word="${COMP_WORDS[COMP_CWORD]}"
    local head="${word%"${word##*[=:]}"}"
    [[ $head == --*=* ]] && head="${head#--*=}"
    local i
    for i in "${!COMP_WORDS[@]}"; do printf -v "COMP_WORDS[i]" %q "${COMP_WORDS[i]}"; done
    _opshift_completion "$@"
    COMPREPLY=("${COMPREPLY[@]#"$head"}")
}

complete -o nosort -F _opshift_whole_words opshift
"""
MARK = "# completion of opshift"
SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True, slots=True)
class Completion(Form):
    """The completion script of a shell.

    Printed by `opshift completion`.
    """

    KIND = "completion"

    shell: str
    """The shell."""
    script: str
    """The script."""
    installed: str | None
    """The file with the installed script; null if it was not installed."""


@options.command("opshift completion --install", "opshift completion zsh > _opshift")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option(
    "--install",
    is_flag=True,
    help="Install the script; new shells then complete the words of `opshift`.",
)
@common
def command(output: Output, shell: str | None, install: bool) -> int:
    """Print or install the completion script of a shell.

    The default is your login shell.
    """
    shell = shell or _own_shell()
    script = _script(shell)
    if not install:
        output.result(
            lambda: (Line(line) for line in script.splitlines()),
            lambda: Completion(shell, script, None).as_dict(),
        )
        return DONE
    path, start = _install(shell, script)
    output.result(
        lambda: [
            Line(f"Installed the completion of {shell} in {path}.", Role.GOOD),
            Line(f"  What to do: open a new shell, or run: {start}"),
        ],
        lambda: Completion(shell, script, str(path)).as_dict(),
    )
    return DONE


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(
            f"the login shell {name!r} has no completion; give one of {', '.join(SHELLS)}"
        )
    return name


def _script(shell: str) -> str:
    from opshift.cli.entry import main

    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"click has no completion for {shell}")
    script = completion(main, {}, PROGRAM, VARIABLE).source().strip() + "\n"
    return script + BASH_WHOLE_WORDS if shell == "bash" else script


def _install(shell: str, script: str) -> tuple[Path, str]:
    """Installs or replaces the script; returns its path and the command that loads it."""
    home = Path.home()
    if shell == "fish":
        base = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        path = base / "fish" / "completions" / f"{PROGRAM}.fish"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, "utf-8")
        return path, f"source {path}"
    base = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    path = base / PROGRAM / f"completion.{shell}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ZSH_READY + script if shell == "zsh" else script, "utf-8")
    start = (
        Path(os.environ.get("ZDOTDIR") or home) / ".zshrc" if shell == "zsh" else home / ".bashrc"
    )
    text = start.read_text("utf-8") if start.exists() else ""
    if MARK not in text:
        gap = "" if not text or text.endswith("\n") else "\n"
        start.write_text(f'{text}{gap}. "{path}"  {MARK}\n', "utf-8")
    return path, f". {path}"
