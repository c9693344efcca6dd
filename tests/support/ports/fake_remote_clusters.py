"""The port `RemoteClusters` on fake servers: kubeconfigs are parsed as in the operator, and name a server by its host."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from hearth.engine.work_queue import ClusterListener, WorkQueue
from hearth.kube.auth import inline_kubeconfig
from hearth.kube.auth.inline_kubeconfig import InlineKubeconfig
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.sharding import Share
from hearth.model.signatures import Signatures
from hearth.plan.retry import retry_triggers
from hearth.plan.state.condition_types import ClusterReason
from support.ports.fake_connection import FakeWire
from support.ports.fake_workload_cluster import FakeWorkloadCluster
from support.server.fake_server import FakeServer
from support.server.request_faults import Request, Traffic

Answer = TypeVar("Answer")
Change: TypeAlias = tuple[Kind, Object | None, Object | None]
TOKEN = "the unspeakable token of an account"
DOMAIN = "clusters.example"


def make_secret(name: str, namespace: str) -> Object:
    """A Secret with the kubeconfig of the cluster of that name."""
    entry = {"name": name}
    content = {
        "current-context": name,
        "contexts": [{**entry, "context": {"cluster": name, "user": name}}],
        "clusters": [{**entry, "cluster": {"server": f"https://{name}.{DOMAIN}:6443"}}],
        "users": [{**entry, "user": {"token": TOKEN}}],
    }
    data = {"value": base64.b64encode(json.dumps(content).encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data}


@dataclass(slots=True, eq=False)
class OtherServer:
    """Another cluster of a world."""

    server: FakeServer
    is_away: bool = False
    remotes: list[FakeRemoteCluster] = field(default_factory=list)
    """The connections of operators to it."""
    bend: Callable[[Request, Any], Any] = lambda _request, answer: answer
    """Changes the response to a request, to simulate a hostile server."""
    bend_events: Callable[[Change], list[Change]] = lambda change: [change]
    """Changes the events of a change, to simulate a hostile server."""

    def set_away(self, *, is_away: bool) -> None:
        """Disconnect or reconnect the cluster."""
        self.is_away = is_away
        for each in self.remotes:
            each.on_state()


class OtherWire(FakeWire):
    """A connection to another cluster, which may be disconnected."""

    def __init__(self, other: OtherServer, log: Traffic) -> None:
        super().__init__(other.server, log)
        self._other = other
        self._missed: list[tuple[Kind, Object | None, Object | None]] = []

    async def send(self, request: Request, act: Any) -> Any:
        """See the base class; fails while the cluster is disconnected."""
        if self._other.is_away:
            await self.travel()
            raise errors.Unreachable("connection refused")
        return self._other.bend(request, await super().send(request, act))

    def _on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        if self._other.is_away:
            self._missed.append((kind, before, after))
            return
        for change in self._other.bend_events((kind, before, after)):
            super()._on_change(*change)

    def sync_events(self) -> None:
        """Receive all events since the disconnection."""
        missed, self._missed = self._missed, []
        for change in missed:
            self._on_change(*change)


class FakeRemoteCluster:
    """One other cluster under one kubeconfig."""

    def __init__(
        self,
        kubeconfig: InlineKubeconfig,
        other: OtherServer,
        wire: OtherWire,
        queue: WorkQueue,
        *,
        users: set[str],
        **options: Any,
    ) -> None:
        self._config = kubeconfig
        self._other = other
        self._wire = wire
        self._listener = ClusterListener(queue, kubeconfig.key, is_user=users.__contains__)
        self.cluster = FakeWorkloadCluster(wire, self._listener, **options)
        self.key, self.server, self.host, self.namespace = (
            kubeconfig.key,
            kubeconfig.server,
            kubeconfig.host,
            kubeconfig.namespace,
        )
        self.hidden_texts = kubeconfig.hidden_texts
        self.identity = ""
        self.is_open = not other.is_away
        self.trouble: tuple[str, str] | None = None
        self._judge()

    def _judge(self) -> None:
        away = f"cluster {self.host} cannot be reached: connection refused"
        self.trouble = (ClusterReason.UNREACHABLE, away) if self._other.is_away else None

    def on_state(self) -> None:
        """Handle a disconnection or reconnection, which is noticed with the latency of an event."""
        self._wire.enqueue(self._notice)

    def _notice(self) -> None:
        self._judge()
        self.is_open = self.is_open or self.trouble is None
        self._listener.on_state()
        if self.trouble is None:
            self._wire.sync_events()
            self._listener.on_retry_trigger(retry_triggers.SERVER)

    async def wait_open(self, seconds: float) -> None:
        """As the port says; the first attempt takes no time."""

    def note_silence(self) -> None:
        """See the port. Not needed here, because the fake world notices every change of state."""


class FakeRemoteClusters:
    """All other clusters that one engine uses."""

    def __init__(
        self, others: Mapping[str, OtherServer], log: Traffic, queue: WorkQueue, *, signatures: Signatures, share: Share
    ) -> None:
        """others: by their names."""
        self._others = others
        self._log = log
        self._queue = queue
        self._options = {"signatures": signatures, "share": share}
        self._open: dict[str, tuple[FakeRemoteCluster, set[str]]] = {}
        self._wires: list[OtherWire] = []

    def use(self, stack_uid: str, namespace: str, kubeconfig: str) -> FakeRemoteCluster:
        """As the port says."""
        config = inline_kubeconfig.parse(kubeconfig)
        found = self._open.get(config.key)
        if found is None:
            found = self._open[config.key] = self._make(config)
        found[1].add(stack_uid)
        return found[0]

    def _make(self, kubeconfig: InlineKubeconfig) -> tuple[FakeRemoteCluster, set[str]]:
        name = kubeconfig.host.partition(".")[0]
        # A server with an unknown name does not answer.
        other = self._others.get(name) or OtherServer(FakeServer(asyncio.get_running_loop().time), is_away=True)
        wire, users = OtherWire(other, self._log), set[str]()
        self._wires.append(wire)
        remote = FakeRemoteCluster(kubeconfig, other, wire, self._queue, users=users, **self._options)
        other.remotes.append(remote)
        return remote, users

    def leave(self, stack_uid: str, *, besides: str = "") -> None:
        """See the port; a fake connection costs nothing, so it is kept."""
        for key, (_, users) in self._open.items():
            if key != besides:
                users.discard(stack_uid)

    def cut(self) -> None:
        """Stop all traffic."""
        for wire in self._wires:
            wire.cut()
        for other in self._others.values():
            other.remotes = [each for each in other.remotes if all(each is not mine for mine, _ in self._open.values())]
