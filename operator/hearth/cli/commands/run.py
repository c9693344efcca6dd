"""`hearth run`: converts flags and environment variables to settings, and starts the operator."""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable
from typing import Any

import click

from hearth import settings as settings_module
from hearth.cli import main as cli
from hearth.cli import profiling
from hearth.model import limits
from hearth.model.tenancy import Mode
from hearth.settings import Settings


class TextType(click.ParamType[Any]):
    """A flag whose text is converted by a function, which raises ValueError for invalid text."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert the text; a default that is already a value stays unchanged."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


ADDRESS = TextType("host:port", settings_module.parse_address)
DURATION = TextType("duration", settings_module.parse_duration)
ACCOUNTS = TextType("namespace:name,namespace:name", settings_module.parse_accounts)
GROUPS = TextType("group,group", settings_module.parse_groups)
KINDS = TextType("kind,kind.group", settings_module.parse_kinds)
PROFILE = TextType("file", profiling.claim)

flag = functools.partial(click.option, show_envvar=True)
"""An option whose help shows its environment variable."""


@click.command(
    # Set again, because click would put the name of the command into each variable.
    context_settings={"show_default": True, "auto_envvar_prefix": cli.ENVIRONMENT_PREFIX}
)
@flag(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    help="Path of the kubeconfig. Default: in a pod, its ServiceAccount; otherwise the file that kubectl uses.",
)
@flag("--context", help="Context in the kubeconfig. Default: its current context.")
@flag(
    "--namespace",
    help="Manage only the Stacks in this namespace. Default: all namespaces.",
)
@flag(
    "--namespaced-watches",
    type=KINDS,
    show_default="none",
    help="Kinds to watch only in namespaces whose Stacks have such objects, instead of in all namespaces, e.g. Secret. "
    "Objects of these kinds must be in the namespace of their Stack.",
)
@flag(
    "--operator-namespace",
    default=settings_module.find_operator_namespace,
    show_default="the namespace of the pod, otherwise hearth-system",
    help="Namespace of the operator's own objects.",
)
@flag(
    "--serve-operator-namespace",
    is_flag=True,
    help="Allow --namespace and --operator-namespace to be the same. Stacks in that namespace can then read and write the "
    "operator's own objects, so only administrators should be able to write Stacks there.",
)
@flag(
    "--tenancy",
    type=click.Choice([mode.value for mode in Mode], case_sensitive=False),
    default=Mode.ISOLATED.value,
    help="Permissions of Stacks without a ServiceAccount. isolated: objects in their own namespace. strict: no objects. "
    "trusted: objects in any namespace, for clusters where only administrators can write Stacks.",
)
@flag(
    "--definition-groups",
    type=GROUPS,
    show_default="none: StackDefinitions are not served",
    help="API groups that StackDefinitions may define kinds in, e.g. platform.example.",
)
@flag(
    "--definition-accounts",
    type=ACCOUNTS,
    show_default="none",
    help="ServiceAccounts that StackDefinitions may use to write the objects of their instances, e.g. platform-system:webapps.",
)
@flag(
    "--default-service-account",
    help="ServiceAccount for Stacks that specify none. It must exist in the namespace of each such Stack.",
)
@flag(
    "--other-clusters/--no-other-clusters",
    default=True,
    help="Manage Stacks with objects in other clusters (spec.kubeConfig), in a separate process. If disabled, such Stacks are "
    "rejected.",
)
@flag(
    "--clusters-memory",
    type=click.IntRange(min=128),
    default=limits.CLUSTERS_MEMORY,
    help="Memory limit, in MiB, of the process for Stacks in other clusters. If it needs more, the process is restarted.",
)
@flag(
    "--allow-loopback-clusters/--no-allow-loopback-clusters",
    default=False,
    help="Allow API servers at loopback, link-local and metadata addresses in spec.kubeConfig, for tests on one machine.",
)
@flag(
    "--http-address",
    type=ADDRESS,
    default="127.0.0.1:8080",
    help="Address to serve /healthz, /readyz and /metrics on. Port 0 selects a free port.",
)
@flag(
    "--webhook-address",
    type=ADDRESS,
    show_default="off",
    help="Address to serve the admission webhook (HTTPS) on, e.g. :9443. Every replica serves it.",
)
@flag(
    "--webhook-secret",
    default=settings_module.DEFAULT_WEBHOOK,
    help="Secret in --operator-namespace with the certificates of the webhook. The operator creates and renews them, or only "
    "reads them if another program provides them.",
)
@flag(
    "--webhook-configuration",
    default=settings_module.DEFAULT_WEBHOOK,
    help="Name of the ValidatingWebhookConfiguration and MutatingWebhookConfiguration to keep up to date.",
)
@flag(
    "--check-authors/--no-check-authors",
    default=True,
    help="With the webhook: reject a Stack if its author can neither impersonate the Stack's ServiceAccount nor create Pods "
    "in its namespace.",
)
@flag(
    "--log-format",
    type=click.Choice(["text", "json"], case_sensitive=False),
    default="text",
    help="Plain text, or one JSON object per line.",
)
@flag(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    help="Minimum severity of log messages.",
)
@flag(
    "--max-concurrent-writes",
    type=click.IntRange(min=1),
    default=32,
    help="Maximum number of concurrent writes. The operator adapts the number to the API server's responses.",
)
@flag(
    "--max-backoff",
    type=DURATION,
    default="5m",
    help="Maximum delay between two attempts for one resource, e.g. 90s, 5m or 1h30m.",
)
@flag(
    "--leader-election/--no-leader-election",
    default=settings_module.is_pod,
    show_default="on in a pod, otherwise off",
    help="Allow several processes: one is active, and the others wait until its Lease is free.",
)
@flag(
    "--ignore-leader",
    is_flag=True,
    help="Without leader election: start even if another process manages the same Stacks. The two then undo each other's work.",
)
@flag(
    "--lease-name",
    show_default="hearth, followed by --namespace if set",
    help="Name of the leader election Lease in --operator-namespace.",
)
@flag(
    "--lease-duration",
    type=DURATION,
    default="15s",
    help="Time after which another process may acquire a Lease that is not renewed.",
)
@flag(
    "--renew-deadline",
    type=DURATION,
    default="10s",
    help="Time after which a leader that cannot renew its Lease exits, so that another process can take over.",
)
@flag(
    "--retry-period",
    type=DURATION,
    default="2s",
    help="Time between two renewals of the Lease, and between two attempts to renew it.",
)
@flag(
    "--shards",
    type=click.IntRange(min=1, max=settings_module.MAX_SHARDS),
    default=1,
    help="Number of shards. Every process must use the same value.",
)
@flag(
    "--shard",
    type=click.IntRange(min=0),
    show_default="the ordinal of the StatefulSet's pod",
    help="Index of this process's shard, starting at 0.",
)
@flag(
    "--notification-dir",
    type=click.Path(file_okay=False),
    show_default="off",
    help="Directory with the files url and key: send notifications about Stacks to that URL, signed with that key. Both may "
    "be changed while the operator runs.",
)
@flag(
    "--notification-format",
    type=click.Choice(["cloudevents", "slack"], case_sensitive=False),
    default="cloudevents",
    help="Format of the notifications.",
)
@flag(
    "--notification-source",
    default="/hearth",
    help="Name of this installation in notifications, as a URI or path, e.g. https://clusters.example/production.",
)
@flag(
    "--profile",
    type=PROFILE,
    help="Write a profile of the engine's thread to this file at exit, for `python -m pstats` or snakeviz. "
    "Profiling can halve the speed.",
)
@click.pass_obj
def run(programs: cli.Programs, /, **flags: Any) -> None:
    """Run the operator until SIGTERM or SIGINT; a second signal ends it immediately.

    Each flag can also be set with the environment variable next to it. The flag takes precedence.
    """
    try:
        settings = make_settings(**flags)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if mistake := settings.validate():
        raise click.UsageError(mistake)
    raise SystemExit(programs.run(settings))


def make_settings(*, shards: int, shard: int | None, tenancy: str, **flags: Any) -> Settings:
    """Return the settings for the flags. Empty text counts as not set, as for an empty environment variable.

    Raises ValueError if the shard is unknown.
    """
    given = {name: value for name, value in flags.items() if value not in ("", None)}
    return Settings(
        tenancy=Mode(tenancy or Mode.ISOLATED),
        share=settings_module.find_share(shards, shard, host=socket.gethostname()),
        **given,
    )
