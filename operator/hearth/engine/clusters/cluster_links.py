"""Which cluster each Stack's objects are in, as decided once its definition was read.

A running Stack keeps its link until the next one is ready, even if its spec says otherwise meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hearth.engine.clusters.no_cluster import NO_CLUSTER
from hearth.engine.clusters.remote_ports import RemoteCluster
from hearth.engine.ports import WorkloadCluster
from hearth.model import value_class
from hearth.plan.health.health_rules import HealthRules

HOME = ""
"""The key of the cluster that the Stacks themselves are in."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLink:
    """The cluster of one Stack's objects."""

    cluster: WorkloadCluster
    rules: HealthRules
    """How health is assessed there: by the schemas of that cluster."""
    key: str = HOME
    namespace: str = ""
    """The only namespace that objects may be in; "" for all."""
    remote: RemoteCluster | None = None
    """None for the home cluster, and while the cluster is unknown."""
    is_remote: bool = False
    """Whether it is another cluster, known or not."""


@dataclass(slots=True)
class ClusterLinks:
    """The links of all Stacks of this process."""

    home: ClusterLink | None = None
    """The link of all Stacks of the home cluster, once it is needed."""
    _links: dict[str, ClusterLink | None] = field(default_factory=dict)
    """By Stack; None for the home cluster."""
    _awaited: dict[str, str] = field(default_factory=dict)
    """By Stack: the key of the cluster that it waits for."""
    _rules: dict[str, HealthRules] = field(default_factory=dict)
    """By cluster."""

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
        """Link a Stack to another cluster, unless it is. rules: of the home cluster."""
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
        """Drop a Stack that is gone."""
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
