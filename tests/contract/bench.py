"""A common interface to the two worlds of the contract tests: the ports, their listeners, and a user.

Each test runs in both worlds. Any difference between fake and real is a mistake of the fake.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from hearth.engine.ports import HealthMarkClient, ManagementCluster, WorkloadCluster
from hearth.model import errors, names, signatures
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.retry.retry_triggers import RetryTrigger
from support.server import fake_kinds
from support.stories import probe_controller
from support.stories.world import Address, User
from support.units.blueprints import HASHER

TIMEOUT = 20.0
"""Seconds for an event to arrive on a machine that is busy with other tests."""
POLL = 0.01
PROBE = probe_controller.kind_of()
CONFIG_MAP = fake_kinds.CONFIG_MAP.kind
STACK_UID = "00000000-0000-0000-0000-000000000001"
OURS = "hearth:test/shop"
THEIRS = "another-client"


@dataclass(slots=True)
class Ears:
    """Records the notifications of the caches."""

    children: list[tuple[str, str]] = field(default_factory=list)
    stacks: list[str] = field(default_factory=list)
    synced: list[Kind] = field(default_factory=list)
    sources: list[ObjectRef] = field(default_factory=list)
    causes: list[RetryTrigger] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    kinds: int = 0

    def on_child(self, stack_uid: str, resource: str) -> None:
        """As the port says."""
        self.children.append((stack_uid, resource))

    def on_stack(self, uid: str) -> None:
        """As the port says."""
        self.stacks.append(uid)

    def on_kinds(self) -> None:
        """As the port says."""
        self.kinds += 1

    def on_synced(self, kind: Kind) -> None:
        """As the port says."""
        self.synced.append(kind)

    def on_revision(self, stack_uid: str) -> None:
        """As the port says."""

    def on_source(self, ref: ObjectRef) -> None:
        """As the port says."""
        self.sources.append(ref)

    def on_health_mark(self, uid: str) -> None:
        """As the port says."""
        self.marks.append(uid)

    def on_retry_trigger(self, trigger: RetryTrigger) -> None:
        """As the port says."""
        self.causes.append(trigger)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The engine's view of a refusal; texts may differ."""

    code: int
    reason: str | None
    kind: str | None
    """The kind in `details`."""
    causes: tuple[tuple[str | None, str | None], ...]
    """Reason and field of each cause."""


@dataclass(slots=True, kw_only=True)
class Bench:
    cluster: WorkloadCluster
    home: ManagementCluster
    marks: HealthMarkClient
    ears: Ears
    user: User
    namespace: str

    # ------------------------------------------------------------ objects

    def manifest(self, kind: Kind, name: str, **fields: Any) -> Object:
        """A complete manifest of a child, as the engine would apply it."""
        labels = {names.LABEL_STACK_UID: STACK_UID, names.LABEL_STACK: "shop", names.LABEL_RESOURCE: name}
        identity = names.identity(
            stack_uid=STACK_UID, group=kind.group, kind=kind.name, namespace=self.namespace, name=name
        )
        signature = signatures.write(identity, resource=name, incarnation=1, requires="", signer=HASHER)
        metadata = {"name": name, "namespace": self.namespace, "labels": labels}
        metadata["annotations"] = {names.ANNOTATION_IDENTITY: identity, names.ANNOTATION_SIGNATURE: signature}
        metadata |= fields.pop("metadata", {})
        return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **fields}

    def config(self, name: str = "web", *, metadata: Object | None = None, **data: str) -> Object:
        return self.manifest(CONFIG_MAP, name, metadata=metadata or {}, data=data)

    def probe(self, name: str = "web", *, metadata: Object | None = None, **spec: Any) -> Object:
        return self.manifest(PROBE, name, metadata=metadata or {}, spec=spec)

    def held(self) -> Object:
        """Metadata with a finalizer that stays until it is removed."""
        return {"finalizers": [probe_controller.FINALIZER]}

    async def release(self, manifest: Object) -> None:
        """Remove that finalizer."""
        await self.user.patch(Address.of(manifest), {"metadata": {"finalizers": None}})

    async def apply(self, manifest: Object, *, manager: str = OURS, force: bool = True) -> Child:
        """Apply a manifest of a kind that stories know."""
        kind = next(kind for kind in (PROBE, CONFIG_MAP) if kind.name == manifest["kind"])
        return await self.cluster.apply(manifest, kind=kind, manager=manager, force=force)

    async def live(self, manifest: Object) -> Object:
        """The object that a manifest names."""
        found = await self.user.find(Address.of(manifest))
        assert found is not None
        return found

    async def create_stack(self, name: str = "shop") -> Object:
        """A Stack with one resource, as soon as the cache shows it."""
        resource = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}}
        made = await self.user.create(
            {
                "apiVersion": f"{names.GROUP}/{names.VERSION}",
                "kind": "Stack",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"template": {"resources": {"web": resource}}},
            }
        )
        await self.until(lambda: self.home.find_stack(made["metadata"]["uid"]) is not None)
        return made

    # ------------------------------------------------------------ looking

    def cached(self, resource: str) -> Child | None:
        """The only child of a resource in the cache."""
        found = self.cluster.children_of(STACK_UID, resource)
        assert len(found) <= 1
        return found[0] if found else None

    async def follow(self, kind: Kind, *paths: tuple[str, ...]) -> None:
        """Follow a kind and wait until it is synced."""
        await self.until(lambda: self.cluster.follow(kind, paths))

    async def until(self, holds: Callable[[], bool | Awaitable[bool]]) -> None:
        """Wait until a condition holds. Raises AssertionError after the time limit."""
        latest = time.monotonic() + TIMEOUT
        while not await resolve(holds()):
            assert time.monotonic() < latest, "it never came to hold"
            await asyncio.sleep(POLL)

    async def settle(self, kind: Kind) -> None:
        """Wait until all events of followed kinds have arrived, and clear the records."""
        marker = f"marker-{time.monotonic_ns()}"
        await self.user.create(self.manifest(kind, marker))
        await self.until(lambda: (STACK_UID, marker) in self.ears.children)
        self.ears.children.clear()


async def resolve(answer: bool | Awaitable[bool]) -> bool:
    """The response, awaited if necessary."""
    return answer if isinstance(answer, bool) else await answer


async def refused(request: Awaitable[Any]) -> Refusal:
    """Return the refusal of a request. Raises AssertionError if it is accepted."""
    try:
        answer = await request
    except errors.ApiStatusError as error:
        return read_refusal(error)
    raise AssertionError(f"expected a refusal, found {answer}")


def read_refusal(error: errors.ApiStatusError) -> Refusal:
    """Reads a refusal like the engine."""
    if error.status is None:
        return Refusal(error.code, None, None, ())
    details = error.status.get("details") or {}
    causes = tuple((each.get("reason"), each.get("field")) for each in details.get("causes") or ())
    return Refusal(error.code, error.status.get("reason"), details.get("kind"), causes)
