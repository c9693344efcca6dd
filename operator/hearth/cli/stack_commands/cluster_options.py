"""The options for cluster and namespace, as in kubectl. They may come before or after the subcommand.

The module also runs the requests of a subcommand and converts errors to kubectl's messages and exit codes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from hearth.cli.stack_views import safe_text
from hearth.model import errors, value_class
from hearth.model.tenancy import Mode, Tenancy

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session
    from hearth.kube.auth.credentials import UserCredentialSource

KEY: Final = "hearth.cluster"
DEFAULT_NAMESPACE: Final = "default"
NOT_INSTALLED: Final = "the server could not find the requested resource"
DONE: Final = 0
"""Exit code: done, or the answer is yes."""
FAILED: Final = 1
"""Exit code: not done, the answer is no, or something needs attention."""
INTERRUPTED: Final = 130


class Failure(errors.HearthError):
    """Ends a subcommand with the exit code of an error. The message has the reason."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The cluster options of the command line; None: not set."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    user: str | None = None
    other_clusters: bool | None = None
    """Whether to connect to the clusters that Stacks name; None: ask on a terminal, otherwise do not connect."""

    def override(self, *, other_clusters: bool | None = None, **stated: str | None) -> ClusterOptions:
        """Return these options with the given values, which take precedence."""
        chosen = self.other_clusters if other_clusters is None else other_clusters
        return replace(self, other_clusters=chosen, **{key: each for key, each in stated.items() if each})

    def find_source(self) -> UserCredentialSource:
        """Return the source of the user's credentials."""
        from hearth.kube.auth import credentials

        found = credentials.find_source(kubeconfig=self.kubeconfig, context=self.context, environ=os.environ)
        return credentials.ImpersonatingSource(inner=found, user=self.user) if self.user else found

    @contextlib.asynccontextmanager
    async def open_session(self) -> AsyncIterator[Session]:
        """Connect as the user within the block. Raises HearthError."""
        from hearth.cli.stack_access.session import Session
        from hearth.kube.client.connection import Connection

        async with Connection(self.find_source()) as connection:
            yield Session(connection, may_connect=self._may_connect)

    def _may_connect(self, server: str) -> bool:
        if self.other_clusters is not None or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return bool(self.other_clusters)
        return click.confirm(f"Connect to {safe_text.one_line(server)}, which a Stack specifies?", err=True)

    def find_namespace(self) -> str:
        """Return the given namespace, otherwise the context's."""
        return self.namespace or self.find_source().find_namespace() or DEFAULT_NAMESPACE


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, and pass them as `cluster`. Options after the subcommand take precedence."""

    @click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False),
        help="Path of the kubeconfig. Default: the file that kubectl uses.",
    )
    @click.option("--context", help="Context in the kubeconfig. Default: its current context.")
    @click.option("-n", "--namespace", help="Namespace. Default: the namespace of the context.")
    @click.option("--as", "user", metavar="USER", callback=check_user, help="User to impersonate.")
    @click.option(
        "--other-clusters/--no-other-clusters",
        default=None,
        help="Connect to other clusters that contain objects of Stacks. Default: ask on a terminal, otherwise do not connect.",
    )
    @functools.wraps(command)
    def with_cluster(
        *args: Any,
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        user: str | None,
        other_clusters: bool | None,
        **options: Any,
    ) -> Any:
        meta = click.get_current_context().meta
        known: ClusterOptions = meta.get(KEY, ClusterOptions())
        meta[KEY] = merged = known.override(
            kubeconfig=kubeconfig, context=context, namespace=namespace, user=user, other_clusters=other_clusters
        )
        set_color(click.get_current_context())
        return command(*args, cluster=merged, **options)

    return with_cluster


def tenancy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the tenancy of the operator, and pass them as `tenancy`."""

    @click.option(
        "--tenancy",
        type=click.Choice([mode.value for mode in Mode], case_sensitive=False),
        default=Mode.ISOLATED.value,
        show_default=True,
        help="The operator's --tenancy setting; it cannot be read from the cluster.",
    )
    @click.option("--default-service-account", default="", metavar="NAME", help="The operator's setting.")
    @functools.wraps(command)
    def with_tenancy(*args: Any, tenancy: str, default_service_account: str, **options: Any) -> Any:
        rules = Tenancy(mode=Mode(tenancy), default_account=default_service_account)
        return command(*args, tenancy=rules, **options)

    return with_tenancy


def on_cluster(command: Callable[..., Awaitable[int]]) -> Callable[..., Any]:
    """Add the options, and run the command with `session` and `namespace`; it returns the exit code."""

    @cluster_options
    @functools.wraps(command)
    def run_command(*, cluster: ClusterOptions, **options: Any) -> NoReturn:
        run(cluster, lambda session: command(session=session, namespace=cluster.find_namespace(), **options))

    return run_command


def check_user(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Check and return the name of a user, which becomes a header."""
    if value is not None and not value.isprintable():
        raise click.BadParameter("must be a name without control characters")
    return value


def set_color(ctx: click.Context) -> None:
    """Use color on a terminal only, and never against NO_COLOR (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        ctx.color = False


def run(cluster: ClusterOptions, work: Callable[[Session], Awaitable[int]], *, failure: int = FAILED) -> NoReturn:
    """Run the coroutine of a subcommand, and end the program with the exit code that it returns.

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
    try:
        async with cluster.open_session() as session:
            return await work(session)
    except errors.ApiStatusError as refused:
        complain(describe_refusal(refused))
    except errors.HearthError as error:
        complain(f"error: {error}")
    return failure


def describe_refusal(error: errors.ApiStatusError) -> str:
    """Return an answer of the API server in kubectl's form: `Error from server (NotFound): …`."""
    reason = (error.status or {}).get("reason")
    message = str(error)
    if reason == "NotFound" and message == NOT_INSTALLED:
        message += "; this cluster has no Stack kind: install Hearth, or pass another --context"
    return f"Error from server ({reason}): {message}" if reason else f"Error from server: {message}"


def complain(message: str) -> None:
    """Write an error, made safe for a terminal."""
    click.echo(safe_text.clean(message), err=True)
