"""The interface between a story and its place: a fake cluster in virtual time, or a real API server.

Both perform the user's kubectl actions and run the operator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from hearth.model.child import Object
from hearth.model.tenancy import Mode
from hearth.plan.ownership.keyed_hash import KeyedHasher
from support.server.request_faults import Traffic

Check: TypeAlias = Callable[[], Awaitable[list[str]]]
"""Returns the unmet expectations; empty if all are met."""


async def find_nothing() -> list[str]:
    """A check that always holds."""
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where one object is, as kubectl addresses it."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Address:
        """The address of an object."""
        metadata = raw["metadata"]
        return cls(
            api_version=raw["apiVersion"],
            kind=raw["kind"],
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
        )


class User(Protocol):
    """A user with kubectl and all rights."""

    async def find(self, address: Address) -> Object | None:
        """The object, or None."""

    async def find_children(self, stack_uid: str, kinds: Collection[str]) -> list[Object]:
        """All objects with that Stack's label except revisions, at least of the kinds with these names."""

    async def find_revisions(self, stack_uid: str) -> list[Object]:
        """The ControllerRevisions that this Stack owns."""

    async def list_plans(self, stack_uid: str) -> list[Object]:
        """The StackPlans of this Stack, the oldest first."""

    async def get_hasher(self) -> KeyedHasher:
        """The key of the operator's signatures."""

    async def create(self, manifest: Object, *, by: str = "") -> Object:
        """As `kubectl create`."""

    async def replace_spec(self, address: Address, spec: Object) -> None:
        """`kubectl replace` of only the spec."""

    async def patch(self, address: Address, patch: Object) -> Object:
        """As `kubectl patch --type=merge`."""

    async def patch_status(self, address: Address, status: Object) -> Object:
        """The same of the subresource `status`."""

    async def scale(self, address: Address, replicas: int, *, manager: str) -> Object:
        """Like `kubectl scale` or an autoscaler, through the subresource `scale`."""

    async def delete(self, address: Address, *, cascade: str = "background") -> None:
        """As `kubectl delete --wait=false`, which also has `foreground` and `orphan`."""


class World(Protocol):
    """A cluster, an operator, and time."""

    namespace: str
    """The namespace of the stories' Stacks."""
    tenancy: Mode
    """The tenancy of operators started later."""
    traffic: Traffic
    """The operator's requests, and the faults to inject."""

    has_virtual_time: bool
    """Whether time passes only as the story specifies, so that even the number of retries is known."""

    def now(self) -> float:
        """Seconds since the epoch."""

    @property
    def user(self) -> User:
        """The user who does the story's actions."""

    async def start_controller(self) -> None:
        """Start the operator; it knows only the contents of the cluster."""

    async def kill_controller(self) -> None:
        """Stop it as SIGKILL would."""

    async def add_cluster(self, name: str) -> None:
        """Start another cluster, and create a Secret of that name with its kubeconfig."""

    def set_away(self, cluster: str, *, is_away: bool) -> None:
        """Disconnect or reconnect another cluster."""

    def hold_events(self, kind: str) -> None:
        """Hold back all events about objects of that kind."""

    def release_events(self, kind: str) -> None:
        """Deliver the held events."""

    async def wait(self, seconds: float) -> None:
        """Let time pass."""

    async def wait_until(self, check: Check) -> list[str]:
        """Continue until everything holds or the world is at rest; return the unmet expectations."""

    async def wait_rest(self, check: Check = find_nothing, *, patience: float = 0.0) -> list[str]:
        """Continue until the world is at rest; return the unmet expectations.

        patience: extra seconds to continue while expectations are unmet.
        """
