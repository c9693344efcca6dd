"""A user with kubectl on the fake server, and the stage that simulates probes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan.ownership.keyed_hash import KeyedHasher
from support.checks import stack_plans
from support.ports.fake_remote_clusters import OtherServer
from support.server import fake_kinds
from support.server.fake_server import FakeServer
from support.stories import probe_controller
from support.stories.world import Address

MANAGER = "kubectl-edit"
HASH_KEY = b"the key of every fake cluster"
PLAYER = "probe-player"


@dataclass(frozen=True, slots=True)
class FakeUser:
    """A user with all rights."""

    server: FakeServer
    others: Mapping[str, OtherServer] = field(default_factory=dict)
    """The other clusters, which are searched for objects that are not in the first cluster."""

    def kind_of(self, address: Address) -> Kind:
        """The kind of an address; raises an error if it is not served."""
        return self.server.find_kind({"apiVersion": address.api_version, "kind": address.kind})

    def server_of(self, address: Address) -> FakeServer:
        place = self.kind_of(address), address.namespace, address.name
        servers = [self.server, *(each.server for each in self.others.values())]
        return next((each for each in servers if each.find(*place) is not None), self.server)

    async def find(self, address: Address) -> Object | None:
        """The object, or None."""
        try:
            return self.server_of(address).find(self.kind_of(address), address.namespace, address.name)
        except errors.ApiStatusError:
            return None

    async def find_children(self, stack_uid: str, kinds: Collection[str] = ()) -> list[Object]:
        """Every object with that Stack's label except revisions, regardless of its kind."""
        return [
            raw
            for server in (self.server, *(each.server for each in self.others.values()))
            for kind, raw in server.everything()
            if (raw["metadata"].get("labels") or {}).get(names.LABEL_STACK_UID) == stack_uid
            and kind != fake_kinds.CONTROLLER_REVISION.kind
        ]

    async def find_revisions(self, stack_uid: str) -> list[Object]:
        """The ControllerRevisions that this Stack owns."""
        found = self.server.list_all(fake_kinds.CONTROLLER_REVISION.kind)
        return [
            raw
            for raw in found
            if any(owner["uid"] == stack_uid for owner in raw["metadata"].get("ownerReferences", ()))
            or raw["metadata"].get("labels", {}).get(names.LABEL_STACK_UID) == stack_uid
        ]

    async def list_plans(self, stack_uid: str) -> list[Object]:
        """The StackPlans of this Stack, the oldest first."""
        return stack_plans.sort_plans(self.server.list_all(fake_kinds.STACK_PLAN.kind), stack_uid)

    async def get_hasher(self) -> KeyedHasher:
        """The key of the operator's signatures."""
        return KeyedHasher(HASH_KEY)

    async def create(self, manifest: Object, *, by: str = "") -> Object:
        """As `kubectl create`. by: another field manager."""
        return self.server.create(manifest, manager=by or MANAGER)

    async def replace_spec(self, address: Address, spec: Object) -> None:
        """`kubectl replace` of only the spec."""
        live = self.server.get(self.kind_of(address), address.namespace, address.name)
        self.server.replace({**live, "spec": spec}, manager=MANAGER)

    async def patch(self, address: Address, patch: Object) -> Object:
        """As `kubectl patch --type=merge`."""
        return self.server_of(address).patch(
            self.kind_of(address), address.namespace, address.name, patch, manager=MANAGER
        )

    async def patch_status(self, address: Address, status: Object) -> Object:
        """The same of the subresource `status`."""
        kind = self.kind_of(address)
        return self.server_of(address).patch_status(kind, address.namespace, address.name, status, manager=PLAYER)

    async def scale(self, address: Address, replicas: int, *, manager: str) -> Object:
        """As `kubectl scale`."""
        kind = self.kind_of(address)
        return self.server_of(address).patch_scale(kind, address.namespace, address.name, replicas, manager=manager)

    async def delete(self, address: Address, *, cascade: str = "background") -> None:
        """As `kubectl delete --wait=false`."""
        self.server_of(address).delete(
            self.kind_of(address), address.namespace, address.name, policy=cascade.capitalize()
        )

    # ------------------------------------------------------------ where probes are played

    async def write_probe_status(self, probe: Object, status: Object) -> None:
        """See the player's `Stage`."""
        address = Address.of(probe)
        if await self._is_there(probe):
            await self.patch_status(address, status)

    async def release_probe(self, probe: Object) -> None:
        """See the player's `Stage`."""
        address = Address.of(probe)
        if await self._is_there(probe):
            live = await self.find(address) or {}
            kept = [each for each in live["metadata"].get("finalizers", ()) if each != probe_controller.FINALIZER]
            await self.patch(address, {"metadata": {"finalizers": kept or None}})

    async def expire_probe(self, probe: Object) -> None:
        """See the player's `Stage`."""
        if await self._is_there(probe):
            await self.delete(Address.of(probe))

    async def _is_there(self, probe: Object) -> bool:
        """Whether exactly that probe still exists."""
        live = await self.find(Address.of(probe))
        return live is not None and live["metadata"]["uid"] == probe["metadata"]["uid"]
