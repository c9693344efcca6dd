"""Arguments and options that several subcommands share: NAME with shell completion, durations and the output format.

Completion never reports an error. If it fails, it offers no candidates.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence, Set
from typing import TYPE_CHECKING, Any, Final

import click

from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_views import type_words
from hearth.model import object_fields
from hearth.model.text import times
from hearth.model.well_known_kinds import STACK

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from hearth.cli.stack_access.session import Session

COMPLETION_SECONDS: Final = 3.0
"""Time limit: a shell that hangs is worse than a shell without suggestions."""


class StackName(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """The name of a Stack."""

    name = "stack"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002 -- click calls it so
        """`stack/shop` as `shop`."""
        return strip_type(value, type_words.STACK)

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 -- click calls it so
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the Stacks of the namespace that begin with the text."""
        return complete(ctx, incomplete, list_stack_names)


class GroupName(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """The name of a ResourceGroup."""

    name = "group"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002 -- click calls it so
        """`rg/workers` as `workers`."""
        return strip_type(value, type_words.GROUP)


class ResourceName(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """The name of a resource in the Stack that the previous argument names."""

    name = "resource"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 -- click calls it so
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the resources of the Stack that begin with the text."""
        name = ctx.params.get("name") or ""
        return complete(ctx, incomplete, lambda session, namespace: list_resource_names(session, namespace, name))


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`90s`, `5m`, `1h30m`, as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        if isinstance(value, int | float):
            return float(value)
        try:
            return times.parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def find_cluster(ctx: click.Context) -> ClusterOptions:
    """Return the cluster options on the command line so far."""
    found: dict[str, str] = {}
    each: click.Context | None = ctx
    while each is not None:
        for key in ("kubeconfig", "context", "namespace"):
            if key not in found and each.params.get(key):
                found[key] = each.params[key]
        each = each.parent
    return ClusterOptions(
        kubeconfig=found.get("kubeconfig"), context=found.get("context"), namespace=found.get("namespace")
    )


def complete(
    ctx: click.Context, incomplete: str, find: Callable[[Session, str], Awaitable[Sequence[str]]]
) -> list[CompletionItem]:
    """Return the results of `find` that begin with the text; none after a failure or a timeout."""
    from click.shell_completion import CompletionItem

    async def find_in_time() -> Sequence[str]:
        cluster = find_cluster(ctx)
        async with asyncio.timeout(COMPLETION_SECONDS), cluster.open_session() as session:
            return await find(session, cluster.find_namespace())

    # A message would land in the middle of the user's command line.
    with contextlib.suppress(Exception):
        return [CompletionItem(name) for name in sorted(asyncio.run(find_in_time())) if name.startswith(incomplete)]
    return []


async def list_stack_names(session: Session, namespace: str) -> Sequence[str]:
    """Return the names of the Stacks of a namespace."""
    return [each["metadata"]["name"] for each in await session.list(STACK, namespace, only_metadata=True)]


async def list_resource_names(session: Session, namespace: str, name: str) -> Sequence[str]:
    """Return the names of the resources in the template of a Stack."""
    return list(object_fields.mapping(await session.get(STACK, namespace, name), "spec", "template", "resources"))


def strip_type(name: str, words: Set[str]) -> str:
    """Return the name in `stack/shop`, `stacks.hearth.dev/shop` or `shop`. words: the accepted types, in lower case."""
    type_, slash, rest = name.partition("/")
    return rest if slash and type_.lower() in words else name


NAME = click.argument("name", type=StackName(), metavar="NAME")


def files_option(
    *, required: bool = False, text: str = "YAML or JSON file, optionally compressed with gzip; - is standard input."
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option for files, passed as `files`."""
    return click.option("-f", "--filename", "files", multiple=True, required=required, metavar="FILE", help=text)


def output_option(*formats: str, default: str | None = None, text: str = "Output format.") -> Callable[..., Any]:
    """Return the option for the output format. text: its help."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats, case_sensitive=False),
        default=default,
        show_default=default is not None,
        help=text,
    )
