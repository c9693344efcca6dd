"""The `hearth` command, its subcommand `version`, and the table of the other subcommands, which are imported on demand.

To add a subcommand, add a line to `COMMANDS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

import hearth
from hearth.cli import command_classes
from hearth.cli.command_classes import Entry
from hearth.model import value_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from hearth.settings import Settings

ENVIRONMENT_PREFIX = "HEARTH"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Functions of higher layers for the command line, which must not import them."""

    run: Callable[[Settings], int]
    """Run the operator until it is stopped; return the exit code."""


COMMANDS: Mapping[str, Entry] = {
    "run": Entry("hearth.cli.commands.run:run", "Run the operator."),
    "crds": Entry("hearth.cli.commands.crds:crds", "Print the CustomResourceDefinitions."),
    "schema": Entry("hearth.cli.commands.schema:schema", "Print JSON Schemas of all kinds, for editors."),
    "demo": Entry("hearth.cli.commands.demo:demo", "Create an example Stack and show its progress live."),
    "import": Entry("hearth.cli.commands.import_:import_", "Convert plain manifests to a Stack."),
    "lsp": Entry("hearth.cli.commands.lsp:lsp", "Run the language server for editors."),
    "page": Entry("hearth.cli.commands.page:page", "Serve the page of `kubectl stack ui` for a team."),
    "stack": Entry(
        "hearth.cli.stack_commands.stack_group:stack", "Inspect and control Stacks. The same as `kubectl stack`."
    ),
    "version": Entry("hearth.cli.main:version", "Print the version."),
}


@click.group(
    cls=command_classes.LazyGroup,
    entries=COMMANDS,
    context_settings={
        "auto_envvar_prefix": ENVIRONMENT_PREFIX,
        "help_option_names": ["-h", "--help"],
        "max_content_width": 120,
    },
)
@click.version_option(hearth.__version__, prog_name="hearth")
def main() -> None:
    """Hearth manages Stacks on Kubernetes: one custom resource, a template with parameters, becomes many objects."""


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print the versions of the program, the API and Python as JSON.")
def version(*, is_json: bool) -> None:
    """Print the version."""
    import json
    import platform

    from hearth.model import names

    if is_json:
        described = {
            "version": hearth.__version__,
            "apiVersion": f"{names.GROUP}/{names.VERSION}",
            "python": platform.python_version(),
            "platform": f"{platform.system()}/{platform.machine()}".lower(),
        }
        click.echo(json.dumps(described))
    else:
        click.echo(hearth.__version__)
