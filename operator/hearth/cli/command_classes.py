"""Click classes: commands with examples in their help, and groups that import a subcommand only when it is called."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

import click

from hearth.model import value_class


class ExampleCommand(click.Command):
    """A command with examples that can be pasted."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, each on its own line and unbroken."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def example_command(*examples: str, name: str | None = None) -> Callable[[Callable[..., Any]], click.Command]:
    """Return the decorator that turns a function into a command. name: default: the function's name."""
    return click.command(name, cls=ExampleCommand, examples=examples)


@value_class.dataclass(frozen=True, slots=True)
class Entry:
    """A subcommand that is not loaded yet."""

    target: str
    """Location of the command's function: `package.module:function`."""
    summary: str
    """One line."""
    section: str = "Commands"
    """The heading in the help."""
    aliases: tuple[str, ...] = ()
    """Aliases that the help does not list."""


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
        """Return the subcommand with that name, or None."""
        entry = self.entries.get(self.aliases.get(cmd_name, cmd_name))
        if entry is None:
            return None
        command: click.Command = pkgutil.resolve_name(entry.target)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand. For a mistyped name, suggest the closest one."""
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
