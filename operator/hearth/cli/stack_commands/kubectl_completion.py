"""Shell completion of `kubectl stack …`, which kubectl asks of the program `kubectl_complete-stack`.

Source: k8s.io/kubectl, `pkg/cmd/plugin/plugin_completion.go`: one candidate a line, then `:` and a directive of cobra.
"""

from __future__ import annotations

import sys
from typing import Final

import click
from click.shell_completion import ShellComplete

from hearth.cli.stack_views import safe_text

NO_FILES: Final = ":4"
"""Cobra's directive not to offer files."""


def complete() -> None:
    """Write the candidates for the words of this process."""
    from hearth.cli.stack_commands import stack_group

    *words, unfinished = sys.argv[1:] or [""]
    completer = ShellComplete(stack_group.stack, {}, "kubectl stack", "_KUBECTL_STACK_COMPLETE")
    for item in completer.get_completions(words, unfinished):
        text = safe_text.one_line(item.value)
        click.echo(f"{text}\t{safe_text.one_line(item.help)}" if item.help else text)
    click.echo(NO_FILES)
