"""A command whose help ends with examples, as kubectl's does. Must not know any command."""

from __future__ import annotations

from typing import Any

import click


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
