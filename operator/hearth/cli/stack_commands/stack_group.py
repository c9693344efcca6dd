"""`kubectl stack`: the table of its subcommands, which are loaded on demand, and shell completion.

To add a subcommand, add a line to the table.
"""

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
    "list": entry(SEE, "showing.list_commands:list_", "List Stacks, with problems and pending actions.", "ls", "get"),
    "tree": entry(SEE, "showing.drawing_commands:tree", "Show resources, objects and nested Stacks as a tree."),
    "why": entry(
        SEE,
        "showing.explanation_commands:why",
        "Explain why a Stack is not ready, with the root cause and commands that help.",
    ),
    "events": entry(
        SEE, "showing.explanation_commands:events", "Show the Events of a Stack and its objects as one timeline."
    ),
    "history": entry(
        SEE, "showing.history_command:history", "Show revisions, and the differences between two of them."
    ),
    "graph": entry(SEE, "showing.drawing_commands:graph", "Draw the resources as a graph: SVG, Graphviz or Mermaid."),
    "ui": entry(SEE, "showing.list_commands:ui", "Inspect and control Stacks in a browser."),
    "plan": entry(SEE, "steering.plan_commands:plan", "Show the change that waits for an approval."),
    "wait": entry(
        SEE, "steering.verb_commands:wait", "Wait for a state, and fail as soon as the Stack cannot reach it."
    ),
    "approve": entry(STEER, "steering.plan_commands:approve", "Approve the change that waits."),
    "reject": entry(STEER, "steering.plan_commands:reject", "Reject the change that waits."),
    "retry": entry(STEER, "steering.verb_commands:retry", "Retry everything that failed now."),
    "rollback": entry(STEER, "steering.verb_commands:rollback", "Roll back to an earlier revision."),
    "snapshot": entry(
        STEER, "steering.verb_commands:snapshot", "Take a snapshot of the revision and the data of its volumes."
    ),
    "restore": entry(STEER, "steering.verb_commands:restore", "Restore a snapshot, including its data."),
    "continue": entry(STEER, "steering.verb_commands:continue_", "Continue past a breakpoint."),
    "mark": entry(STEER, "steering.mark_commands:mark", "Declare an object unhealthy, so that it is replaced."),
    "unmark": entry(STEER, "steering.mark_commands:unmark", "Remove a mark."),
    "check": entry(STEER, "steering.verb_commands:check", "Compare all objects with the API server."),
    "cleanup": entry(STEER, "steering.verb_commands:cleanup", "Delete obsolete objects now."),
    "pause": entry(STEER, "steering.verb_commands:pause", "Stop all writes of the operator."),
    "unpause": entry(STEER, "steering.verb_commands:unpause", "Allow the operator to write again."),
    "suspend": entry(STEER, "steering.verb_commands:suspend", "Stop all workloads: scale them to zero."),
    "resume": entry(STEER, "steering.verb_commands:resume", "Resume suspended workloads."),
    "scale": entry(STEER, "steering.verb_commands:scale", "Set the number of members of a ResourceGroup."),
    "promote": entry(STEER, "steering.rollout_commands:promote", "Move an instance to a revision of its definition."),
    "rollout": entry(STEER, "steering.rollout_commands:rollout", "Watch and control the rollout of a StackDefinition."),
    "lint": entry(FILES, "files.file_commands:lint", "Report mistakes in files with Stacks."),
    "diff": entry(FILES, "files.diff_command:diff", "Preview a change of a Stack."),
    "rehearse": entry(FILES, "files.rehearse_command:rehearse", "Rehearse the way back of a change."),
    "export": entry(FILES, "files.export_command:export", "Print the objects of a Stack as plain manifests."),
    "import": Entry("hearth.cli.commands.import_:import_", "Convert plain manifests to a Stack.", section=FILES),
    "render": entry(FILES, "files.file_commands:render", "Render the manifests of Stacks in files."),
    "backstage": entry(
        FILES, "files.backstage_command:backstage", "Write a Backstage software template from a StackDefinition."
    ),
    "test": entry(FILES, "files.stack_test_command:test", "Run tests of Stacks in files, without a cluster."),
}


@click.group(
    cls=command_classes.LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@cluster_options.cluster_options
@click.version_option(hearth.__version__, prog_name="kubectl stack")
def stack(cluster: cluster_options.ClusterOptions) -> None:
    """Inspect and control the Stacks of a cluster, with your own credentials.

    Read commands need no running operator. NAME is the name of a Stack, as in `kubectl get stacks`. `stack/NAME` works
    too, as do `rg/NAME` for a ResourceGroup and `webapp/NAME` for an instance of a StackDefinition.
    """


def complete() -> None:
    """Write the completions for the arguments of this process, as `kubectl_complete-stack`, which kubectl calls.

    Source: k8s.io/kubectl, `pkg/cmd/plugin/plugin_completion.go`: one candidate per line, then `:` and a directive of
    cobra.
    """
    from click.shell_completion import ShellComplete

    *words, unfinished = sys.argv[1:] or [""]
    completer = ShellComplete(stack, {}, "kubectl stack", "_KUBECTL_STACK_COMPLETE")
    for item in completer.get_completions(words, unfinished):
        text = safe_text.one_line(item.value)
        click.echo(f"{text}\t{safe_text.one_line(item.help)}" if item.help else text)
    click.echo(NO_FILES)
