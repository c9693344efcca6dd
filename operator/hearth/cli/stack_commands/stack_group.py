"""`kubectl stack`: the table of its subcommands, each loaded when it is called for. A new one is a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

import hearth
from hearth.cli import lazy_group
from hearth.cli.lazy_group import Entry
from hearth.cli.stack_commands import cluster_options

PACKAGE: Final = "hearth.cli.stack_commands"
SEE, STEER, FILES = "See", "Steer", "Files"


def entry(
    module: str, summary: str, *, section: str, attribute: str | None = None, aliases: tuple[str, ...] = ()
) -> Entry:
    """Return the entry of a subcommand in a module of this package."""
    return Entry(
        module=f"{PACKAGE}.{module}",
        attribute=attribute or module.rpartition(".")[2].removesuffix("_command"),
        summary=summary,
        section=section,
        aliases=aliases,
    )


COMMANDS: Mapping[str, Entry] = {
    "list": entry(
        "showing.list_command",
        "List Stacks with what needs attention.",
        section=SEE,
        attribute="list_",
        aliases=("ls", "get"),
    ),
    "tree": entry("showing.tree_command", "Show resources, objects and nested Stacks as a tree.", section=SEE),
    "why": entry("showing.why_command", "Explain what is wrong, to the root cause, with commands.", section=SEE),
    "events": entry("showing.events_command", "Show one timeline of everything that belongs to a Stack.", section=SEE),
    "history": entry("showing.history_command", "Show revisions, and what changed between two.", section=SEE),
    "graph": entry("showing.graph_command", "Draw the graph of resources: SVG, Graphviz, Mermaid.", section=SEE),
    "ui": entry("showing.ui_command", "Show and steer Stacks in a browser.", section=SEE),
    "wait": entry("steering.wait_command", "Wait for a state, and fail as soon as it cannot be reached.", section=SEE),
    "retry": entry("steering.verb_commands", "Retry everything that failed now.", section=STEER, attribute="retry"),
    "rollback": entry("steering.verb_commands", "Go back to an earlier revision.", section=STEER, attribute="rollback"),
    "snapshot": entry(
        "steering.snapshot_commands",
        "Keep the revision and the data of its volumes.",
        section=STEER,
        attribute="snapshot",
    ),
    "restore": entry(
        "steering.snapshot_commands", "Go back to a snapshot, with its data.", section=STEER, attribute="restore"
    ),
    "continue": entry("steering.verb_commands", "Continue past a breakpoint.", section=STEER, attribute="continue_"),
    "mark": entry(
        "steering.mark_commands",
        "Declare an object unhealthy, so that it is replaced.",
        section=STEER,
        attribute="mark",
    ),
    "unmark": entry("steering.mark_commands", "Take back a mark.", section=STEER, attribute="unmark"),
    "check": entry(
        "steering.verb_commands", "Compare all objects with the API server.", section=STEER, attribute="check"
    ),
    "cleanup": entry("steering.verb_commands", "Delete obsolete objects now.", section=STEER, attribute="cleanup"),
    "pause": entry("steering.verb_commands", "Stop all writes of the operator.", section=STEER, attribute="pause"),
    "unpause": entry("steering.verb_commands", "Permit writes again.", section=STEER, attribute="unpause"),
    "suspend": entry("steering.verb_commands", "Scale workloads to nothing.", section=STEER, attribute="suspend"),
    "resume": entry("steering.verb_commands", "Bring suspended workloads back.", section=STEER, attribute="resume"),
    "scale": entry("steering.scale_command", "Set the number of members of a ResourceGroup.", section=STEER),
    "promote": entry(
        "steering.rollout_commands",
        "Move an instance to a revision of its definition.",
        section=STEER,
        attribute="promote",
    ),
    "rollout": entry(
        "steering.rollout_commands",
        "Follow and steer the rollout of a StackDefinition.",
        section=STEER,
        attribute="rollout",
    ),
    "lint": entry("files.file_commands", "Report the mistakes of Stacks in files.", section=FILES, attribute="lint"),
    "diff": entry("files.diff_command", "Show what a change of a Stack would do.", section=FILES),
    "export": entry("files.export_command", "Write the objects of a Stack as plain manifests.", section=FILES),
    "import": Entry(
        module="hearth.cli.commands.import_",
        attribute="import_",
        summary="Convert plain manifests to one Stack.",
        section=FILES,
    ),
    "render": entry(
        "files.file_commands", "Write the manifests of Stacks in files.", section=FILES, attribute="render"
    ),
}


@click.group(
    cls=lazy_group.LazyGroup,
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
