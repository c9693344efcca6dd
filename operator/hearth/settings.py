"""Settings of the operator as frozen values, and their parsers.

`hearth.cli.commands.run` defines the flags and environment variables.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypeAlias

from hearth.model import limits, value_class
from hearth.model.sharding import BUCKETS, WHOLE, Place, Share
from hearth.model.tenancy import ACCOUNT_NAME, Mode, Tenancy

LogFormat: TypeAlias = Literal["text", "json"]
NotificationFormat: TypeAlias = Literal["cloudevents", "slack"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""File that contains the namespace of a pod."""
DEFAULT_OPERATOR_NAMESPACE = "hearth-system"
DEFAULT_LEASE = "hearth"
DEFAULT_WEBHOOK = "hearth-webhook"
LEASE_HELD_EXIT_CODE = 3
"""Exit code of a process that does not start because another one leads the same Stacks."""
HIGHEST_PORT = 65_535
MAX_SHARDS = BUCKETS
ORDINAL = re.compile(r"-(\d+)$")
"""The ordinal at the end of the name of a StatefulSet's Pod."""
KIND = re.compile(r"[A-Z][A-Za-z0-9]*(\.[a-z0-9][a-z0-9.-]*)?")
GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
DEFINER_ACCOUNT = re.compile(rf"[a-z0-9]([-a-z0-9]{{0,61}}[a-z0-9])?:{ACCOUNT_NAME}")
DURATION = re.compile(r"(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?(?:(?P<seconds>\d+)s)?")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen."""

    host: str
    port: int
    """The port; 0 for any free port."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All options of `hearth run`."""

    kubeconfig: str | None = None
    """Path of a kubeconfig; None for the Pod's own account, otherwise kubectl's default."""
    context: str | None = None
    namespace: str | None = None
    """The namespace whose Stacks are served; None for all namespaces."""
    namespaced_watches: frozenset[str] = frozenset()
    """The kinds (`Kind.group`) that are watched only in the namespaces of Stacks that have them."""
    operator_namespace: str = DEFAULT_OPERATOR_NAMESPACE
    """Namespace of the operator's own objects."""
    serve_operator_namespace: bool = False
    """Whether to serve Stacks in the operator's own namespace, if it is the only namespace that is served."""
    tenancy: Mode = Mode.ISOLATED
    """Permissions of Stacks without a ServiceAccount."""
    definition_groups: frozenset[str] = frozenset()
    """API groups where StackDefinitions may create kinds; if empty, StackDefinitions are not served."""
    definition_accounts: frozenset[str] = frozenset()
    """The ServiceAccounts that StackDefinitions may name, as `namespace:name`."""
    default_service_account: str | None = None
    """The ServiceAccount of Stacks that do not name one."""
    allow_loopback_clusters: bool = False
    """Whether Stacks may name API servers on this machine or its network link."""
    other_clusters: bool = True
    """Whether Stacks may name other clusters in `spec.kubeConfig`."""
    clusters_memory: int = limits.CLUSTERS_MEMORY
    """MiB of memory of the process that serves Stacks of other clusters."""
    http_address: Address = Address(host="127.0.0.1", port=8080)
    webhook_address: Address | None = None
    """Where admission reviews are served; None to serve none."""
    webhook_secret: str = DEFAULT_WEBHOOK
    """Name of the Secret with the certificates of the webhook."""
    webhook_configuration: str = DEFAULT_WEBHOOK
    """Name of the webhook configurations that are kept up to date."""
    check_authors: bool = True
    """Whether the webhook denies a Stack whose author is not allowed to use the ServiceAccount that it names."""
    log_format: LogFormat = "text"
    log_level: LogLevel = "info"
    max_concurrent_writes: int = 32
    """Upper limit of concurrent writes; Hearth adapts their number to the API server's responses."""
    max_backoff: timedelta = timedelta(minutes=5)
    """Maximum wait between two attempts for a resource."""
    leader_election: bool = False
    """Whether several processes run, of which only the elected one works at a time."""
    ignore_leader: bool = False
    """Whether to work even if another process leads the same Stacks; only without `leader_election`."""
    lease_name: str | None = None
    """Name of the Lease for the election; None to derive it from the Stacks that the processes serve."""
    lease_duration: timedelta = timedelta(seconds=15)
    """Time after which others may take over a Lease that is not renewed."""
    renew_deadline: timedelta = timedelta(seconds=10)
    """Time after which a leader that could not renew its Lease exits."""
    retry_period: timedelta = timedelta(seconds=2)
    """Time between two renewals, and between two attempts to acquire the Lease."""
    share: Share = WHOLE
    """The share of all Stacks that this process serves."""
    notification_dir: str | None = None
    """Directory with the URL and the key of the receiver of notifications; None to send none."""
    notification_format: NotificationFormat = "cloudevents"
    notification_source: str = "/hearth"
    """The name of this installation in notifications."""
    profile: str | None = None
    """Path of a file for a profile of the whole run."""

    @property
    def serves_definitions(self) -> bool:
        """Return whether this process serves StackDefinitions."""
        return bool(self.definition_groups)

    @property
    def serves_clusters(self) -> bool:
        """Return whether this process itself connects to other clusters."""
        return self.other_clusters and self.share.place is not Place.HERE

    def find_own_part(self) -> Settings:
        """Return the settings of a process that leaves the Stacks of other clusters to a child process."""
        if not self.other_clusters or self.share.place is not Place.ANYWHERE:
            return self
        return replace(self, share=replace(self.share, place=Place.HERE))

    def find_lease_group(self) -> str:
        """Return the name that processes for the same Stacks share. The default differs between namespaces."""
        if self.lease_name is not None:
            return self.lease_name
        return f"{DEFAULT_LEASE}-{self.namespace}" if self.namespace else DEFAULT_LEASE

    def find_lease_name(self) -> str:
        """Return the name of this process's Lease; each share of the Stacks has its own."""
        return self.find_lease_group() if self.share.has_all_buckets else f"{self.find_lease_group()}-{self.share}"

    def make_tenancy(self) -> Tenancy:
        """Return the tenancy. An operator that serves only its own namespace cannot close that namespace."""
        closed = self.operator_namespace if self.namespace != self.operator_namespace else ""
        return Tenancy(
            mode=self.tenancy,
            closed=closed,
            default_account=self.default_service_account or "",
            definer_accounts=self.definition_accounts,
        )

    def validate(self) -> str:
        """Return a sentence about settings that contradict each other, or "" if none do."""
        if self.leader_election and self.ignore_leader:
            return "--ignore-leader cannot be combined with --leader-election; remove one of them"
        if self.namespace == self.operator_namespace and not self.serve_operator_namespace:
            return (
                f"--namespace and --operator-namespace are both {self.namespace}: its Stacks could read and write the key of "
                f"all signatures there; set another --operator-namespace, or set --serve-operator-namespace if only "
                f"administrators write Stacks in {self.namespace}"
            )
        if self.definition_accounts and not self.definition_groups:
            return "--definition-accounts has no effect without --definition-groups; set both, or neither"
        if not self.leader_election or self.retry_period < self.renew_deadline < self.lease_duration:
            return ""
        return (
            "--retry-period must be shorter than --renew-deadline, which must be shorter than --lease-duration; "
            f"found {self.retry_period.total_seconds():g} s, {self.renew_deadline.total_seconds():g} s "
            f"and {self.lease_duration.total_seconds():g} s"
        )


def parse_address(text: str) -> Address:
    """Parse an address, e.g. `127.0.0.1:8080`, `[::1]:8080` or `:8080`. Raises ValueError."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > HIGHEST_PORT:
        raise ValueError(f"{text!r} is not an address: write host:port, e.g. 127.0.0.1:8080")
    if host.startswith("[") and host.endswith("]"):
        return Address(host=host[1:-1], port=int(port))
    if ":" in host:
        raise ValueError(f"{text!r} is not an address: write an IPv6 host in brackets, e.g. [::1]:8080")
    return Address(host=host or "0.0.0.0", port=int(port))  # noqa: S104 -- asked for by leaving the host out


def parse_kinds(text: str) -> frozenset[str]:
    """Parse a list of kinds, e.g. `Secret,Certificate.cert-manager.io`. Raises ValueError."""
    return parse_list(text, KIND, "is not a kind: write Kind or Kind.group, e.g. Secret or Deployment.apps")


def parse_groups(text: str) -> frozenset[str]:
    """Parse a list of API groups, e.g. `platform.example,shop.example`. Raises ValueError."""
    return parse_list(text, GROUP, "is not an API group of your own: write a domain, e.g. platform.example")


def parse_accounts(text: str) -> frozenset[str]:
    """Parse a list of ServiceAccounts, e.g. `platform-system:webapps`. Raises ValueError."""
    return parse_list(
        text, DEFINER_ACCOUNT, "is not a ServiceAccount: write namespace:name, e.g. platform-system:webapps"
    )


def parse_list(text: str, pattern: re.Pattern[str], problem: str) -> frozenset[str]:
    """Parse a list with commas. Raises ValueError for an entry that does not match, with the problem."""
    found = frozenset(part.strip() for part in text.split(","))
    for each in found:
        if not pattern.fullmatch(each):
            raise ValueError(f"{each!r} {problem}")
    return found


def parse_duration(text: str) -> timedelta:
    """Parse a duration, e.g. `90s`, `5m` or `1h30m`. Raises ValueError."""
    found = DURATION.fullmatch(text)
    parts = {unit: int(value) for unit, value in found.groupdict().items() if value} if found else {}
    if not any(parts.values()):
        raise ValueError(f"{text!r} is not a positive duration: write e.g. 90s, 5m or 1h30m")
    return timedelta(**parts)


def find_operator_namespace(file: Path = NAMESPACE_FILE) -> str:
    """Return the pod's own namespace, or the default one outside of a pod."""
    try:
        return file.read_text().strip() or DEFAULT_OPERATOR_NAMESPACE
    except OSError:
        return DEFAULT_OPERATOR_NAMESPACE


def is_pod(file: Path = NAMESPACE_FILE) -> bool:
    """Whether this process runs in a Pod that may have several replicas."""
    return file.exists()


def find_share(shards: int, shard: int | None, *, host: str) -> Share:
    """Return the share of one of `shards` processes: the given one, otherwise the ordinal of the StatefulSet's Pod.

    Raises ValueError if neither is given.
    """
    if shards == 1:
        return WHOLE
    ordinal = ORDINAL.search(host)
    if shard is None and ordinal is None:
        raise ValueError(f"--shards is {shards}, but the host name {host!r} does not end in an ordinal; set --shard")
    index = shard if shard is not None else int(ordinal[1]) if ordinal is not None else 0
    if index >= shards:
        raise ValueError(f"there is no shard {index} of {shards}: valid numbers are 0 to {shards - 1}")
    return Share(index=index, count=shards)
