"""The options that name the cluster and the namespace, as kubectl's; before or after the name of the subcommand.

Also runs the requests of a subcommand, and turns every error into kubectl's message and exit code.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import Awaitable, Callable, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from hearth.cli.stack_commands.exit_codes import FAILED
from hearth.cli.stack_views import safe_text, type_words
from hearth.model import value_class

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session
    from hearth.cli.stack_access.stack_locations import StackLocation
    from hearth.kube.auth.credentials import UserCredentialSource

KEY: Final = "hearth.cluster"
INTERRUPTED: Final = 130
DEFAULT_NAMESPACE: Final = "default"
NOT_INSTALLED: Final = "the server could not find the requested resource"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """What the command line says of the cluster; None: not stated."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    user: str | None = None

    def find_source(self) -> UserCredentialSource:
        """Return the source of the user's credentials."""
        from hearth.kube.auth import credentials

        found = credentials.find_source(kubeconfig=self.kubeconfig, context=self.context, environ=os.environ)
        return credentials.ImpersonatingSource(inner=found, user=self.user) if self.user else found

    def find_namespace(self) -> str:
        """Return the stated namespace, else that of the context."""
        return self.namespace or self.find_source().find_namespace() or DEFAULT_NAMESPACE


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, and pass them as `cluster`; those after the subcommand take precedence."""

    @click.option("--kubeconfig", type=click.Path(dir_okay=False), help="Path of the kubeconfig.")
    @click.option("--context", help="The context in the kubeconfig.")
    @click.option("-n", "--namespace", help="The namespace. Default: that of the context.")
    @click.option("--as", "user", metavar="USER", callback=check_user, help="The user to act as.")
    @functools.wraps(command)
    def with_cluster(
        *args: Any,
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        user: str | None,
        **options: Any,
    ) -> Any:
        meta = click.get_current_context().meta
        stated = {"kubeconfig": kubeconfig, "context": context, "namespace": namespace, "user": user}
        merged = replace(meta.get(KEY, ClusterOptions()), **{key: each for key, each in stated.items() if each})
        meta[KEY] = merged
        set_color(click.get_current_context())
        return command(*args, cluster=merged, **options)

    return with_cluster


def check_user(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Return the name of a user, which becomes a header."""
    if value is not None and not value.isprintable():
        raise click.BadParameter("must be a name without control characters")
    return value


def set_color(ctx: click.Context) -> None:
    """Use color on a terminal only, and never against NO_COLOR (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        ctx.color = False


def run(cluster: ClusterOptions, work: Callable[[Session], Awaitable[int]], *, failure: int = FAILED) -> NoReturn:
    """Run the requests of a subcommand, and end the program with the exit code that they return.

    failure: the exit code of an error.
    """
    try:
        code = asyncio.run(with_session(cluster, work, failure=failure))
    except KeyboardInterrupt:
        code = INTERRUPTED
    raise SystemExit(code)


async def with_session(
    cluster: ClusterOptions, work: Callable[[Session], Awaitable[int]], *, failure: int = FAILED
) -> int:
    """Open a connection, work, and close it; report errors as kubectl does. failure: the exit code of an error."""
    from hearth.cli.stack_access.session import Session
    from hearth.kube.client.connection import Connection
    from hearth.model import errors

    try:
        async with Connection(cluster.find_source()) as connection:
            return await work(Session(connection))
    except errors.ApiStatusError as refused:
        complain(describe_refusal(refused))
    except errors.HearthError as error:
        complain(f"error: {error}")
    return failure


def describe_refusal(refused: Any) -> str:
    """Return an answer of the API server in kubectl's form: `Error from server (NotFound): …`."""
    reason = (refused.status or {}).get("reason")
    message = str(refused)
    if reason == "NotFound" and message == NOT_INSTALLED:
        message += "; this cluster has no Stack kind: install Hearth, or pass another --context"
    return f"Error from server ({reason}): {message}" if reason else f"Error from server: {message}"


def describe_absence(location: StackLocation) -> str:
    """Return that there is no such object, in kubectl's form and with the namespace that was searched."""
    kind = location.kind
    where = f"not found in namespace {location.namespace}"
    return f'Error from server (NotFound): {kind.plural}.{kind.group} "{location.name}" {where}'


def complain(message: str) -> None:
    """Write an error, made safe for a terminal."""
    click.echo(safe_text.clean(message), err=True)


def is_terminal() -> bool:
    """Return whether the output is a terminal."""
    return sys.stdout.isatty()


def strip_kind(name: str) -> str:
    """Return the name in `stack/shop`, `stacks.hearth.dev/shop` or `shop`."""
    return _strip(name, type_words.STACK)


def strip_group_kind(name: str) -> str:
    """Return the name in `rg/queue`, `resourcegroups.hearth.dev/queue` or `queue`."""
    return _strip(name, type_words.GROUP)


def _strip(name: str, words: Set[str]) -> str:
    kind, slash, rest = name.partition("/")
    return rest if slash and kind.lower() in words else name
