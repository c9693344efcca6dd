"""A group of subcommands, each loaded when it is called for. Must not know any of them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from hearth.model import value_class


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Module, attribute and one-line summary of a subcommand."""

    module: str
    attribute: str
    summary: str
    section: str = "Commands"
    """The heading in the help."""
    aliases: tuple[str, ...] = ()
    """Other names, which the help does not list."""


class LazyGroup(click.Group):
    """A group that imports a subcommand only when it is called or asked for help."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **options: Any) -> None:
        super().__init__(*args, **options)
        self.entries = entries
        self.aliases = {alias: name for name, entry in entries.items() for alias in entry.aliases}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click calls it so
        """Return all names, in the order of the table."""
        return list(self.entries)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 -- click calls it so
        cmd_name: str,
    ) -> click.Command | None:
        """Return the subcommand of that name, or None."""
        entry = self.entries.get(self.aliases.get(cmd_name, cmd_name))
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(entry.module), entry.attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; of a mistyped one, name the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from hearth.template.text import error_hints

            hint = error_hints.did_you_mean(args[0], [*self.entries, *self.aliases])
            raise click.UsageError(error.message.rstrip(".") + hint, ctx) from error

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 -- click calls it so
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list of subcommands, section by section, without loading one."""
        for section in dict.fromkeys(entry.section for entry in self.entries.values()):
            rows = [(name, entry.summary) for name, entry in self.entries.items() if entry.section == section]
            with formatter.section(section):
                formatter.write_dl(rows)
