"""Ports of the clusters besides the one that the operator runs in. See `hearth.engine.ports`."""

from __future__ import annotations

from typing import Protocol

from hearth.engine.ports import WorkloadCluster


class RemoteCluster(Protocol):
    """Another cluster, as one set of credentials accesses it. Shared by all Stacks with these credentials."""

    @property
    def key(self) -> str:
        """Return what distinguishes the credentials; equal for equal ones, secret, and valid in this process alone."""

    @property
    def server(self) -> str:
        """Return the URL of the API server."""

    @property
    def host(self) -> str:
        """Return host and port of the API server, for messages."""

    @property
    def namespace(self) -> str:
        """Return the only namespace that objects may be in; "" for all."""

    @property
    def cluster(self) -> WorkloadCluster:
        """Return the cluster; its kinds are unknown before `is_open`."""

    @property
    def hidden_texts(self) -> frozenset[str]:
        """Return the credentials, which no message may contain."""

    @property
    def is_open(self) -> bool:
        """Return whether the served kinds were discovered once."""

    @property
    def trouble(self) -> tuple[str, str] | None:
        """Return reason and message of why the cluster cannot be used now; None if it answers."""

    @property
    def identity(self) -> str:
        """Return what no other cluster has, also none at the same address; "" if the credentials do not show it."""

    async def wait_open(self, seconds: float) -> None:
        """Wait at most that long until the first attempt to reach the cluster ends."""

    def note_silence(self) -> None:
        """Examine soon whether the cluster still answers, because a request got no answer."""


class RemoteClusters(Protocol):
    """The other clusters that Stacks use."""

    def use(self, stack_uid: str, namespace: str, kubeconfig: str) -> RemoteCluster:
        """Return the cluster of that kubeconfig, and keep it open until `leave`. Sends nothing itself.

        namespace: of the Stack. Raises `KubeconfigRefused` or `TooManyClusters`.
        """

    def leave(self, stack_uid: str, *, besides: str = "") -> None:
        """Release what `use` returned for that Stack, except the cluster with the key `besides`."""
