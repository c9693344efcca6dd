"""The command `hearth` and its subcommands. Each subcommand is imported only when it is called.

Must not know what a subcommand does; a new one is a line in `COMMANDS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

import hearth

if TYPE_CHECKING:
    from collections.abc import Callable

    from hearth.settings import Settings

ENVIRONMENT_PREFIX = "HEARTH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Functions of higher layers for the command line, which must not import them."""

    run: Callable[[Settings], int]
    """Run the operator until it is stopped; return the exit code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Module, attribute and one-line summary of a subcommand."""

    module: str
    attribute: str
    summary: str


COMMANDS: Mapping[str, Entry] = {
    "run": Entry(module="hearth.cli.commands.run", attribute="run", summary="Run the operator."),
    "crds": Entry(module="hearth.cli.commands.crds", attribute="crds", summary="Print the CustomResourceDefinitions."),
    "demo": Entry(module="hearth.cli.commands.demo", attribute="demo", summary="Show live how a Stack converges."),
    "import": Entry(
        module="hearth.cli.commands.import_", attribute="import_", summary="Convert plain manifests to one Stack."
    ),
    "version": Entry(module="hearth.cli.commands.version", attribute="version", summary="Print the version."),
}


class LazyGroup(click.Group):
    """A group that imports a subcommand only when it is called or asked for help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click calls it so
        """Return all names, in the order of the table."""
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 -- click calls it so
        cmd_name: str,
    ) -> click.Command | None:
        """Return the subcommand of that name, or None."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(entry.module), entry.attribute)
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 -- click calls it so
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list of subcommands without loading one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={
        "auto_envvar_prefix": ENVIRONMENT_PREFIX,
        "help_option_names": ["-h", "--help"],
        "max_content_width": 120,
    },
)
@click.version_option(hearth.__version__, prog_name="hearth")
def main() -> None:
    """Hearth keeps Stacks converged on Kubernetes: a template and its parameters, as one custom resource."""
