"""The argument NAME with shell completion, and the option of a duration. Completion never fails: it offers nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

import click

from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.model.text import times

COMPLETION_SECONDS: Final = 3.0
"""A shell that hangs is worse than one that offers nothing."""


class StackName(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """The name of a Stack."""

    name = "stack"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002 -- click calls it so
        """`stack/shop` as `shop`."""
        return cluster_options.strip_kind(value)

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 -- click calls it so
        incomplete: str,
    ) -> list[Any]:
        """Return the Stacks of the namespace that begin with the text."""
        from click.shell_completion import CompletionItem

        found = complete(find_cluster(ctx), list_stack_names)
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]


class GroupName(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """The name of a ResourceGroup."""

    name = "group"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002 -- click calls it so
        """`rg/workers` as `workers`."""
        return cluster_options.strip_group_kind(value)


class ResourceName(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """The name of a resource of the Stack that the argument before it names."""

    name = "resource"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 -- click calls it so
        incomplete: str,
    ) -> list[Any]:
        """Return the resources of the Stack that begin with the text."""
        from click.shell_completion import CompletionItem

        name = ctx.params.get("name") or ""
        found = complete(find_cluster(ctx), lambda session, namespace: list_resource_names(session, namespace, name))
        return [CompletionItem(each) for each in found if each.startswith(incomplete)]


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
    """Return the options of the cluster that stand on the line so far."""
    found: dict[str, str] = {}
    each: click.Context | None = ctx
    while each is not None:
        for key in ("kubeconfig", "context", "namespace"):
            if key not in found and each.params.get(key):
                found[key] = each.params[key]
        each = each.parent
    return ClusterOptions(**found)


def complete(cluster: ClusterOptions, find: Callable[..., Any]) -> list[str]:
    """Return what `find` finds in time, nothing after any failure."""
    found: list[str] = []

    async def work(session: Any) -> int:
        found.extend(await find(session, cluster.find_namespace()))
        return 0

    async def limited() -> None:
        from hearth.cli.stack_access.session import Session
        from hearth.kube.client.connection import Connection

        async with asyncio.timeout(COMPLETION_SECONDS), Connection(cluster.find_source()) as connection:
            await work(Session(connection))

    # A message would land in the middle of the user's command line.
    with contextlib.suppress(Exception):
        asyncio.run(limited())
    return sorted(found)


async def list_stack_names(session: Any, namespace: str) -> list[str]:
    """Return the names of the Stacks of a namespace."""
    from hearth.model.well_known_kinds import STACK

    return [each["metadata"]["name"] for each in await session.list(STACK, namespace, only_metadata=True)]


async def list_resource_names(session: Any, namespace: str, name: str) -> list[str]:
    """Return the names of the resources in the template of a Stack."""
    from hearth.cli import object_fields
    from hearth.model.well_known_kinds import STACK

    return list(object_fields.mapping(await session.get(STACK, namespace, name), "spec", "template", "resources"))


NAME = click.argument("name", type=StackName(), metavar="NAME")
