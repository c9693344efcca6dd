"""A Stack with a volume, and the actions of users and a storage driver on its StackSnapshots; on either cluster.

The scenarios: `support.stories.snapshot_scenarios`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model import names
from hearth.model.child import Object
from support.checks import expectations
from support.stories import deployment_controller, volume_driver
from support.stories.volume_driver import ClaimBinder
from support.stories.world import Address, World

LABELS = {"app": "db"}
"""Labels of the Pods of a StatefulSet."""
API = f"{names.GROUP}/{names.VERSION}"
PATIENCE = 900.0
"""Virtual seconds; longer than the longest backoff."""


@dataclass(slots=True)
class Scene:
    """One world with one Stack."""

    world: World
    binder: ClaimBinder
    restarts: bool = False
    """Whether the operator restarts at every step of a scenario."""
    spec: Object = field(default_factory=dict)
    stack: str = "shop"
    """The name of the Stack."""
    is_binding: bool = True
    """Whether the driver binds claims while a scenario waits for the Stack."""
    is_copying: bool = True
    """Whether the driver completes the copies of data that a restore replaces."""

    # ------------------------------------------------------------ users

    def claim(self, size: str = "1Gi", *, storage_class: str = "played", **metadata: Any) -> Object:
        """A resource that is a claim of that size."""
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        }
        manifest = {"apiVersion": "v1", "kind": volume_driver.CLAIM, "spec": spec}
        return {"manifest": manifest | ({"metadata": metadata} if metadata else {})}

    def config(self, **data: str) -> Object:
        return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": data}}

    def workload(self, claim: str, image: str = "web:1") -> Object:
        """A resource that is a Deployment of one pod that names a claim."""
        return {"manifest": deployment_controller.manifest("web", {"replicas": 1, "uses": claim, "image": image})}

    def stateful_set(
        self,
        image: str = "db:1",
        replicas: int = 2,
        *,
        claims: Object | None = None,
        replace: str = "",
        labels: Mapping[str, str] = LABELS,
        **spec: Any,
    ) -> Object:
        """A resource that is a StatefulSet with a claim for each of its pods.

        claims: the resource that is such a claim; replace: its policy of replacement.
        """
        manifest = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "spec": {
                "serviceName": "db",
                "replicas": replicas,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": image}]},
                },
                "volumeClaimTemplates": [
                    {"metadata": {"name": "data"}, "spec": (claims or self.claim())["manifest"]["spec"]},
                ],
                **spec,
            },
        }
        return {"manifest": manifest} | ({"updatePolicy": {"replace": replace}} if replace else {})

    async def request(self, **rollback: Any) -> None:
        """Request a rollback of the Stack."""
        template = self.spec["template"]
        await self.apply(template["resources"], parameters=template.get("parameters"), rollback=rollback)

    async def apply(self, resources: Mapping[str, Object], *, parameters: Object | None = None, **spec: Any) -> None:
        """Create the Stack, or replace its spec."""
        declared = {"parameters": parameters} if parameters is not None else {}
        self.spec = {"template": {"resources": dict(resources), **declared}, **spec}
        if await self.find_stack() is None:
            await self.world.user.create({**self._head("Stack", self.stack), "spec": self.spec})
        else:
            await self.world.user.replace_spec(self.address("Stack", self.stack), self.spec)
        await self.step()

    async def snap(self, name: str = "before", **spec: Any) -> None:
        """Create a StackSnapshot."""
        await self.world.user.create({**self._head("StackSnapshot", name), "spec": {"stackName": self.stack, **spec}})
        await self.step()

    async def delete(self, kind: str, name: str) -> None:
        """Delete a Stack or StackSnapshot."""
        await self.world.user.delete(self.address(kind, name))
        await self.step()

    async def step(self) -> None:
        """Restart the operator, if the scenario requests that."""
        if self.restarts:
            await self.world.kill_controller()
            await self.world.start_controller()

    def address(self, kind: str, name: str) -> Address:
        """The address of a Stack or StackSnapshot."""
        return Address(api_version=API, kind=kind, namespace=self.world.namespace, name=name)

    def _head(self, kind: str, name: str) -> Object:
        return {"apiVersion": API, "kind": kind, "metadata": {"name": name, "namespace": self.world.namespace}}

    # ------------------------------------------------------------ the driver

    async def bind(self) -> None:
        """Bind every claim of the Stack that waits for a volume."""
        of_sets = []
        for each in await self.find_children("StatefulSet"):
            await self.binder.play_set(each)
            of_sets += await self.find_set_claims(each)
        for claim in [*await self.find_children(volume_driver.CLAIM), *of_sets]:
            if (claim.get("status") or {}).get("phase") != "Bound":
                await self.binder.bind(claim)
        if self.is_copying:
            await self._copy(of_sets)

    async def find_copies(self, claims: list[Object]) -> list[Object]:
        """The VolumeSnapshots that keep the present data of claims during a restore."""
        state = ((await self.find_stack() or {}).get("status") or {}).get("controllerState") or {}
        token = (state.get("rollback") or {}).get("token", "")
        named = [self.address_of_volume(f"{claim['metadata']['name']}-kept-{token}") for claim in claims]
        found = [await self.world.user.find(address) for address in named]
        return [each for each in found if each is not None]

    async def _copy(self, claims: list[Object]) -> None:
        """Report the copies of the present data as ready."""
        for copied in await self.find_copies(claims):
            if not (copied.get("status") or {}).get("readyToUse"):
                await self.world.user.patch_status(Address.of(copied), volume_driver.make_report())

    async def report(self, name: str = "before", **status: Any) -> None:
        """Report every VolumeSnapshot of a StackSnapshot as ready, or as given."""
        for volume in (await self.read(name)).get("volumes") or ():
            address = self.address_of_volume(volume["snapshot"])
            await self.world.user.patch_status(address, volume_driver.make_report(**status))
        await self.step()

    def address_of_volume(self, name: str) -> Address:
        kind = volume_driver.VOLUME_SNAPSHOT
        return Address(api_version=kind.api_version, kind=kind.name, namespace=self.world.namespace, name=name)

    # ------------------------------------------------------------ observations

    async def find_stack(self) -> Object | None:
        return await self.world.user.find(self.address("Stack", self.stack))

    async def find_children(self, kind: str) -> list[Object]:
        """The objects of the Stack of one kind."""
        stack = await self.find_stack()
        found = await self.world.user.find_children(stack["metadata"]["uid"], [kind]) if stack is not None else []
        return [raw for raw in found if raw["kind"] == kind]

    async def find_set_claims(self, stateful_set: Object) -> list[Object]:
        """The claims of the first three replicas of a StatefulSet."""
        metadata = stateful_set["metadata"]
        wanted = [f"data-{metadata['name']}-{index}" for index in range(3)]
        place = {"api_version": "v1", "kind": volume_driver.CLAIM, "namespace": metadata["namespace"]}
        found = [await self.world.user.find(Address(name=name, **place)) for name in wanted]
        return [each for each in found if each is not None]

    async def find_claim(self) -> Object:
        """The only claim of the Stack."""
        (claim,) = await self.find_children(volume_driver.CLAIM)
        return claim

    async def find_revisions(self) -> list[int]:
        """The numbers of the stored revisions."""
        stack = await self.find_stack()
        found = await self.world.user.find_revisions(stack["metadata"]["uid"]) if stack is not None else []
        return sorted(raw["revision"] for raw in found)

    async def read(self, name: str = "before") -> Object:
        """The status of a StackSnapshot; empty without one."""
        found = await self.world.user.find(self.address("StackSnapshot", name))
        return (found or {}).get("status") or {}

    async def find_volumes(self, name: str = "before") -> list[Object | None]:
        volumes = (await self.read(name)).get("volumes") or ()
        return [await self.world.user.find(self.address_of_volume(each["snapshot"])) for each in volumes]

    async def reach_stack(self, phase: str) -> None:
        """Wait until the Stack has that phase for its current spec, while a driver binds its claims."""

        async def look() -> list[str]:
            if self.is_binding:
                await self.bind()
            found = await self.find_stack()
            return list(expectations.judge_phase(phase, found)) if found is not None else ["there is no Stack"]

        await self.reach(look)

    async def reach_reason(self, reason: str, *, message: str = "") -> None:
        """Wait until `Ready` of the Stack has that reason, and these words in its message, for its current spec."""

        async def look() -> list[str]:
            found = await self.find_stack() or {}
            ready = expectations.find_condition(found, "Ready")
            is_present = (found.get("status") or {}).get("observedGeneration") == found["metadata"]["generation"]
            is_met = is_present and ready.get("reason") == reason and message in ready.get("message", "")
            return [] if is_met else [f"the Stack is {ready}"]

        await self.reach(look)

    async def reach_snapshot(self, phase: str, reason: str, *, name: str = "before") -> Object:
        """Wait until a StackSnapshot has that phase and reason; return its status."""

        async def look() -> list[str]:
            status = await self.read(name)
            ready = expectations.find_condition({"status": status}, "Ready")
            found = (status.get("phase"), ready.get("reason"))
            return [] if found == (phase, reason) else [f"{name} is {found}: {ready.get('message')}"]

        await self.reach(look)
        return await self.read(name)

    async def reach_taken(self, name: str = "before") -> Object:
        """Wait until every VolumeSnapshot of a StackSnapshot exists; return the status."""

        async def look() -> list[str]:
            volumes = (await self.read(name)).get("volumes") or [{}]
            return [f"{each} does not exist" for each in volumes if "snapshotUID" not in each]

        await self.reach(look)
        return await self.reach_snapshot("InProgress", "VolumeSnapshotsNotReady", name=name)

    async def reach_gone(self, address: Address) -> None:
        """Wait until an object does not exist."""

        async def look() -> list[str]:
            return [f"{address} exists"] if await self.world.user.find(address) is not None else []

        await self.reach(look)

    async def reach(self, look: Callable[[], Awaitable[list[str]]]) -> None:
        """Wait until all expectations hold. Raises AssertionError."""
        if await self.world.wait_until(look):
            wrong = await self.world.wait_rest(look, patience=PATIENCE)
            assert not wrong, "\n".join(wrong)
