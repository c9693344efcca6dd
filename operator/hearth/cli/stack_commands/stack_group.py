"""`kubectl stack`: the table of its subcommands, each loaded when it is called for; a new one is a line here. And completion."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

import click

import hearth
from hearth.cli import command_classes
from hearth.cli.command_classes import Entry
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_views import safe_text

PACKAGE: Final = "hearth.cli.stack_commands"
SEE, STEER, FILES = "See", "Steer", "Files"
NO_FILES: Final = ":4"
"""Cobra's directive not to offer files."""


def entry(section: str, target: str, summary: str, *aliases: str) -> Entry:
    """Return the entry of a subcommand. target: in this package, `module:function`."""
    return Entry(f"{PACKAGE}.{target}", summary, section=section, aliases=aliases)


COMMANDS: Mapping[str, Entry] = {
    "list": entry(SEE, "showing.list_commands:list_", "List Stacks with what needs attention.", "ls", "get"),
    "tree": entry(SEE, "showing.drawing_commands:tree", "Show resources, objects and nested Stacks as a tree."),
    "why": entry(SEE, "showing.explanation_commands:why", "Explain what is wrong, to the root cause, with commands."),
    "events": entry(
        SEE, "showing.explanation_commands:events", "Show one timeline of everything that belongs to a Stack."
    ),
    "history": entry(SEE, "showing.history_command:history", "Show revisions, and what changed between two."),
    "graph": entry(SEE, "showing.drawing_commands:graph", "Draw the graph of resources: SVG, Graphviz, Mermaid."),
    "ui": entry(SEE, "showing.list_commands:ui", "Show and steer Stacks in a browser."),
    "wait": entry(SEE, "steering.verb_commands:wait", "Wait for a state, and fail as soon as it cannot be reached."),
    "retry": entry(STEER, "steering.verb_commands:retry", "Retry everything that failed now."),
    "rollback": entry(STEER, "steering.verb_commands:rollback", "Go back to an earlier revision."),
    "snapshot": entry(STEER, "steering.verb_commands:snapshot", "Keep the revision and the data of its volumes."),
    "restore": entry(STEER, "steering.verb_commands:restore", "Go back to a snapshot, with its data."),
    "continue": entry(STEER, "steering.verb_commands:continue_", "Continue past a breakpoint."),
    "mark": entry(STEER, "steering.mark_commands:mark", "Declare an object unhealthy, so that it is replaced."),
    "unmark": entry(STEER, "steering.mark_commands:unmark", "Take back a mark."),
    "check": entry(STEER, "steering.verb_commands:check", "Compare all objects with the API server."),
    "cleanup": entry(STEER, "steering.verb_commands:cleanup", "Delete obsolete objects now."),
    "pause": entry(STEER, "steering.verb_commands:pause", "Stop all writes of the operator."),
    "unpause": entry(STEER, "steering.verb_commands:unpause", "Permit writes again."),
    "suspend": entry(STEER, "steering.verb_commands:suspend", "Scale workloads to nothing."),
    "resume": entry(STEER, "steering.verb_commands:resume", "Bring suspended workloads back."),
    "scale": entry(STEER, "steering.verb_commands:scale", "Set the number of members of a ResourceGroup."),
    "promote": entry(STEER, "steering.rollout_commands:promote", "Move an instance to a revision of its definition."),
    "rollout": entry(STEER, "steering.rollout_commands:rollout", "Follow and steer the rollout of a StackDefinition."),
    "lint": entry(FILES, "files.file_commands:lint", "Report the mistakes of Stacks in files."),
    "diff": entry(FILES, "files.diff_command:diff", "Show what a change of a Stack would do."),
    "export": entry(FILES, "files.export_command:export", "Write the objects of a Stack as plain manifests."),
    "import": Entry("hearth.cli.commands.import_:import_", "Convert plain manifests to one Stack.", section=FILES),
    "render": entry(FILES, "files.file_commands:render", "Write the manifests of Stacks in files."),
}


@click.group(
    cls=command_classes.LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@cluster_options.cluster_options
@click.version_option(hearth.__version__, prog_name="kubectl stack")
def stack(cluster: cluster_options.ClusterOptions) -> None:
    """See and steer the Stacks of a cluster, with your own credentials.

    Reads need no running operator. NAME is the name of a Stack, as in `kubectl get stacks`; `stack/NAME` works too, and so do
    `rg/NAME` for a ResourceGroup and `webapp/NAME` for an object of a kind that a StackDefinition makes.
    """


def complete() -> None:
    """Write the candidates for the words of this process, as the program `kubectl_complete-stack`, which kubectl calls.

    Source: k8s.io/kubectl, `pkg/cmd/plugin/plugin_completion.go`: one candidate a line, then `:` and a directive of cobra.
    """
    from click.shell_completion import ShellComplete

    *words, unfinished = sys.argv[1:] or [""]
    completer = ShellComplete(stack, {}, "kubectl stack", "_KUBECTL_STACK_COMPLETE")
    for item in completer.get_completions(words, unfinished):
        text = safe_text.one_line(item.value)
        click.echo(f"{text}\t{safe_text.one_line(item.help)}" if item.help else text)
    click.echo(NO_FILES)
