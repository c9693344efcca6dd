"""`hearth run`: converts flags and environment variables to frozen settings, and starts the operator."""

from __future__ import annotations

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
    """A flag whose text one function converts to a value or rejects with ValueError."""

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


@click.command(
    # Set again, because click would put the name of the command into each variable.
    context_settings={"show_default": True, "auto_envvar_prefix": cli.ENVIRONMENT_PREFIX}
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    show_envvar=True,
    help="The kubeconfig file. Default: the pod's service account in a pod, else the file that kubectl uses.",
)
@click.option("--context", show_envvar=True, help="The context of the kubeconfig. Default: its current one.")
@click.option(
    "--namespace",
    show_envvar=True,
    help="Serve only the Stacks of this namespace. Default: all namespaces.",
)
@click.option(
    "--namespaced-watches",
    type=KINDS,
    show_default="none",
    show_envvar=True,
    help="Kinds that are watched in each namespace whose Stacks have such objects, instead of in all namespaces, e.g. "
    "Secret. Their objects must be in the namespace of their Stack.",
)
@click.option(
    "--operator-namespace",
    default=settings_module.find_operator_namespace,
    show_default="the namespace of the pod, else hearth-system",
    show_envvar=True,
    help="Namespace of the operator's own objects.",
)
@click.option(
    "--serve-operator-namespace",
    is_flag=True,
    show_envvar=True,
    help="Allow --namespace and --operator-namespace to be the same. Its Stacks can then read and write the operator's own "
    "objects, so only administrators may write Stacks there.",
)
@click.option(
    "--tenancy",
    type=click.Choice([mode.value for mode in Mode], case_sensitive=False),
    default=Mode.ISOLATED.value,
    show_envvar=True,
    help="What Stacks that name no ServiceAccount may do. isolated: have objects in their own namespace. strict: nothing. "
    "trusted: have objects anywhere, for a cluster in which only administrators write Stacks.",
)
@click.option(
    "--definition-groups",
    type=GROUPS,
    show_default="none: StackDefinitions are not served",
    show_envvar=True,
    help="API groups in which StackDefinitions may make kinds, e.g. platform.example.",
)
@click.option(
    "--definition-accounts",
    type=ACCOUNTS,
    show_default="none",
    show_envvar=True,
    help="ServiceAccounts as which StackDefinitions may write the objects of their instances, e.g. platform-system:webapps.",
)
@click.option(
    "--default-service-account",
    show_envvar=True,
    help="The ServiceAccount, in the namespace of each Stack, of Stacks that name none.",
)
@click.option(
    "--other-clusters/--no-other-clusters",
    default=True,
    show_envvar=True,
    help="Serve Stacks whose spec.kubeConfig names another cluster, in a process of their own. Without, they are refused.",
)
@click.option(
    "--clusters-memory",
    type=click.IntRange(min=128),
    default=limits.CLUSTERS_MEMORY,
    show_envvar=True,
    help="MiB of memory of the process that serves the Stacks of other clusters; one that takes more is replaced.",
)
@click.option(
    "--allow-loopback-clusters/--no-allow-loopback-clusters",
    default=False,
    show_envvar=True,
    help="Let spec.kubeConfig name API servers at loopback, link-local and metadata addresses: for tests on one machine.",
)
@click.option(
    "--http-address",
    type=ADDRESS,
    default="127.0.0.1:8080",
    show_envvar=True,
    help="Address of /healthz, /readyz and /metrics; port 0 selects any free port.",
)
@click.option(
    "--webhook-address",
    type=ADDRESS,
    show_default="off",
    show_envvar=True,
    help="Address of the admission webhook (HTTPS), e.g. :9443. Every replica serves it.",
)
@click.option(
    "--webhook-secret",
    default=settings_module.DEFAULT_WEBHOOK,
    show_envvar=True,
    help="Secret in --operator-namespace with the certificates of the webhook; created and renewed, or read if another "
    "program fills it.",
)
@click.option(
    "--webhook-configuration",
    default=settings_module.DEFAULT_WEBHOOK,
    show_envvar=True,
    help="Name of the ValidatingWebhookConfiguration and MutatingWebhookConfiguration to keep up to date.",
)
@click.option(
    "--check-authors/--no-check-authors",
    default=True,
    show_envvar=True,
    help="With the webhook: deny a Stack whose author may neither impersonate the ServiceAccount that it names nor "
    "create Pods in its namespace.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"], case_sensitive=False),
    default="text",
    show_envvar=True,
    help="Plain text, or one JSON object per line.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_envvar=True,
    help="Minimum severity of log messages.",
)
@click.option(
    "--max-concurrent-writes",
    type=click.IntRange(min=1),
    default=32,
    show_envvar=True,
    help="Upper limit of concurrent writes; Hearth adapts their number to the API server's responses.",
)
@click.option(
    "--max-backoff",
    type=DURATION,
    default="5m",
    show_envvar=True,
    help="Maximum delay between two attempts at one resource, e.g. 90s, 5m or 1h30m.",
)
@click.option(
    "--leader-election/--no-leader-election",
    default=settings_module.is_pod,
    show_default="on in a pod, else off",
    show_envvar=True,
    help="Run several processes: one is active, the others stand by until its Lease is free.",
)
@click.option(
    "--ignore-leader",
    is_flag=True,
    show_envvar=True,
    help="Without leader election: work even if another process leads the same Stacks. Both then undo each other's work.",
)
@click.option(
    "--lease-name",
    show_default="hearth, followed by --namespace if set",
    show_envvar=True,
    help="Name of the leader election Lease in --operator-namespace.",
)
@click.option(
    "--lease-duration",
    type=DURATION,
    default="15s",
    show_envvar=True,
    help="Time after which another process may acquire a Lease that is not renewed.",
)
@click.option(
    "--renew-deadline",
    type=DURATION,
    default="10s",
    show_envvar=True,
    help="Time after which a leader that cannot renew its Lease exits, so that another can start.",
)
@click.option(
    "--retry-period",
    type=DURATION,
    default="2s",
    show_envvar=True,
    help="Time between two renewals, and between two attempts at one.",
)
@click.option(
    "--shards",
    type=click.IntRange(min=1, max=settings_module.MAX_SHARDS),
    default=1,
    show_envvar=True,
    help="Number of shards. Every process must use the same value.",
)
@click.option(
    "--shard",
    type=click.IntRange(min=0),
    show_default="the ordinal of the StatefulSet's pod",
    show_envvar=True,
    help="Index of the shard of this process, starting at 0.",
)
@click.option(
    "--profile",
    type=PROFILE,
    show_envvar=True,
    help="Write a profile of the engine's thread to this file at exit, for `python -m pstats` or snakeviz. "
    "Profiling can halve the speed.",
)
@click.pass_obj
def run(programs: cli.Programs, /, **flags: Any) -> None:
    """Run the operator until SIGTERM or SIGINT; a second signal ends it immediately.

    Each flag has an environment variable, named beside it; the flag takes precedence.
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
