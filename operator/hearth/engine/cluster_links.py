# ruff: noqa: ARG002 -- the parameters that matter nothing are those of the port
"""Records the cluster that holds each Stack's objects, as its definition specifies.

A running Stack keeps its link until the next cluster is ready, even if its spec already names that one. While a Stack's
cluster is unknown or was never reached, its link has no kinds and no children.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from hearth.engine.ports import RemoteCluster, WorkloadCluster
from hearth.model import value_class
from hearth.model.child import Child, Path
from hearth.model.errors import Unreachable
from hearth.model.external_objects import UNKNOWN_VIEW, ExternalView
from hearth.model.kinds import Kind, Kinds
from hearth.plan.health.health_rules import HealthRules

HOME = ""
"""The key of the cluster that the Stacks themselves are in."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLink:
    """The cluster of one Stack's objects."""

    cluster: WorkloadCluster
    rules: HealthRules
    """The health rules for the objects, based on the schemas of the cluster."""
    key: str = HOME
    namespace: str = ""
    """The only namespace in which objects are allowed; "" for all."""
    remote: RemoteCluster | None = None
    """The connection to another cluster; None for the home cluster and while the cluster is unknown."""
    is_remote: bool = False
    """Whether the objects are in another cluster, even if that cluster is not known yet."""


@dataclass(slots=True)
class ClusterLinks:
    """The links of all Stacks of this process."""

    home: ClusterLink | None = None
    """The link of all Stacks of the home cluster, created on first use."""
    _links: dict[str, ClusterLink | None] = field(default_factory=dict)
    """The link of each Stack; None for the home cluster."""
    _awaited: dict[str, str] = field(default_factory=dict)
    """The key of the cluster that each Stack waits for."""
    _rules: dict[str, HealthRules] = field(default_factory=dict)
    """Health rules by cluster."""

    def is_linked(self, stack_uid: str) -> bool:
        """Return whether the cluster of the Stack was decided."""
        return stack_uid in self._links

    def find(self, stack_uid: str) -> ClusterLink | None:
        """Return the link to another cluster; None for the home cluster, and before the decision."""
        return self._links.get(stack_uid)

    def link_home(self, stack_uid: str) -> None:
        """Link a Stack to the home cluster."""
        self._links[stack_uid] = None
        self._awaited.pop(stack_uid, None)

    def link(self, stack_uid: str, remote: RemoteCluster, *, rules: HealthRules) -> None:
        """Link a Stack to another cluster, unless it is already linked to it. rules: of the home cluster."""
        self._awaited.pop(stack_uid, None)
        before = self._links.get(stack_uid)
        if before is not None and before.remote is remote:
            return
        if remote.key not in self._rules:
            self._rules[remote.key] = rules.derive(remote.cluster.kinds)
        self._links[stack_uid] = ClusterLink(
            cluster=remote.cluster,
            rules=self._rules[remote.key],
            key=remote.key,
            namespace=remote.namespace,
            remote=remote,
            is_remote=True,
        )
        self._drop_rules()

    def wait_for(self, stack_uid: str, key: str) -> None:
        """Record which cluster a Stack waits for."""
        self._awaited[stack_uid] = key

    def drop(self, stack_uid: str) -> None:
        """Drop a Stack that was deleted."""
        self._awaited.pop(stack_uid, None)
        if self._links.pop(stack_uid, None) is not None:
            self._drop_rules()

    def concerns(self, stack_uid: str, key: str) -> bool:
        """Return whether a change of that cluster concerns the Stack."""
        link = self._links.get(stack_uid)
        return (link.key if link is not None else HOME) == key or self._awaited.get(stack_uid) == key

    def remotes(self) -> dict[str, WorkloadCluster]:
        """Return the other clusters in use by their keys."""
        return {link.key: link.cluster for link in self._others()}

    def _others(self) -> Iterator[ClusterLink]:
        yield from (link for link in self._links.values() if link is not None)

    def _drop_rules(self) -> None:
        kept = {link.key for link in self._others()}
        self._rules = {key: rules for key, rules in self._rules.items() if key in kept}


def make_unknown(rules: HealthRules) -> ClusterLink:
    """Return the link of a Stack whose cluster is not known yet."""
    return ClusterLink(cluster=NO_CLUSTER, rules=rules, is_remote=True)


class NoKinds:
    """No kind is served."""

    generation = 0

    def find(self, api_version: str, kind: str) -> Kind | None:
        """Return None."""
        return None

    def all(self) -> Collection[Kind]:
        """Return none."""
        return ()

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """Return None."""
        return None

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """Return None."""
        return None


class NoCluster:
    """The port `WorkloadCluster` without a cluster. Sends nothing: every request raises `Unreachable`."""

    kinds: Kinds = NoKinds()

    def acting_as(self, user: str) -> Self:
        """Return itself."""
        return self

    def follow(self, kind: Kind, paths: Collection[Path], *, namespace: str = "") -> bool:
        """Return False."""
        return False

    def find_denial(self, kind: Kind, *, namespace: str = "") -> str:
        """Return ""."""
        return ""

    def is_failing(self, kind: Kind, *, namespace: str = "") -> bool:
        """Return True: there is nothing to wait for."""
        return True

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """Return none."""
        return {}

    def children_of(self, stack_uid: str, resource: str) -> tuple[Child, ...]:
        """Return none."""
        return ()

    def find_external(self, stack_uid: str, name: str) -> ExternalView:
        """Return that nothing is known."""
        return UNKNOWN_VIEW

    async def _fail(self, *args: object, **keywords: object) -> Any:
        """Raise `Unreachable`."""
        raise Unreachable("the cluster of the Stack is not known yet")

    apply = apply_dry_run = check_definition = create_dry_run = change_dry_run = change = get = _fail
    create_object = change_object = delete_object = delete = release = mark = list_children = _fail
    is_allowed = may = is_kind_going = list_pods = get_log_end = _fail

    async def _wait_for_nothing(self, *args: object) -> None:
        """Do nothing: there are no kinds."""

    load_schemas = refresh_kinds = _wait_for_nothing

    def _ignore(self, *args: object, **keywords: object) -> None:
        """Do nothing: there is nothing to read, and the return of the cluster reports itself."""

    follow_externals = watch_trigger = retain_triggers = _ignore


NO_CLUSTER: Final[WorkloadCluster] = NoCluster()
