"""The copy of the cluster for one preview, and the engine's services on it.

The cluster is read once, before the run.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from hearth.engine.cluster_objects import Revision, StackObject
from hearth.engine.definition import revision_builder
from hearth.engine.ports import Clock, Evaluations
from hearth.engine.services import Services, Unassisted
from hearth.engine.work_queue import WorkQueue
from hearth.kube.cache import stack_cache
from hearth.model import object_fields, value_class
from hearth.model.api import status_fields
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.tenancy import Tenancy
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.retry.backoff import BackoffPolicy
from hearth.preview import copied_management_cluster
from hearth.preview.assumptions import AssumedRules, Assumptions, PreviewRevisionBuilder
from hearth.preview.copied_management_cluster import CopiedManagementCluster
from hearth.preview.copied_workload_cluster import CopiedWorkloadCluster
from hearth.preview.live_cluster import LiveCluster
from hearth.preview.object_copies import ObjectCopies
from hearth.template.instances.instance_form import InstanceForm, InstanceForms

HASH_KEY: Final = b"of previews, which store no hash"
"""This is no secret, because no hash of a preview is written or shown."""
KEYED_HASH: Final = re.compile(r"k[0-9a-f]{8}:[0-9a-f]{32}")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PreviewRequest:
    """What to preview: the Stack as it is and as it would be, as the API server returns both."""

    present: Object | None
    """None before it exists."""
    wanted: Object
    revisions: Sequence[tuple[Revision, Object]] = ()
    """The stored revisions with their definitions; an empty one if it could not be read."""
    stacks: Collection[str] | None = ()
    """The UIDs of all Stacks of the cluster; None if unknown."""
    beside: Mapping[ObjectRef, Object] = field(default_factory=dict)
    """Sources of the definition that the user specifies together with the Stack. They replace the live ones."""
    tenancy: Tenancy = field(default_factory=Tenancy)
    accounts: Collection[str] = ()
    """Users that the user of the preview may impersonate."""
    form: InstanceForm | None = None
    """Of an instance: the revision of its StackDefinition that it would have; None for a Stack or ResourceGroup."""
    kind: Kind | None = None
    """Of an instance: its kind."""
    hash_content: Callable[[Object], str] | None = None
    """Makes the keyed hash of a manifest for a plan; None without a key."""


class StandingClock:
    """The port `Clock` of a world where no time passes."""

    def __init__(self, now: float) -> None:
        """now: seconds since the epoch."""
        self._now = now

    def now(self) -> float:
        """Return the moment of the preview."""
        return self._now

    def monotonic(self) -> float:
        """Return the time of the preview, which never changes."""
        return self._now

    def call_later(self, delay: float, action: Callable[[], Any]) -> Callable[[], None]:  # noqa: ARG002 -- the port requires it
        """Do nothing, now or later: a preview waits for no retry."""
        return lambda: None


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WorldParts:
    """The parts of a world that a test of a Stack replaces by its own."""

    clock: Clock
    assumptions: Assumptions = field(default_factory=Assumptions)
    make_rules: Callable[..., HealthRules] = AssumedRules
    make_cluster: Callable[..., CopiedWorkloadCluster] = CopiedWorkloadCluster


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PreviewWorld:
    """The copy of the world, and the services on it."""

    request: PreviewRequest
    live: LiveCluster
    """The cluster of the objects."""
    copies: ObjectCopies
    assumptions: Assumptions
    hashes: TrustedHashes
    management: CopiedManagementCluster
    cluster: CopiedWorkloadCluster
    services: Services
    builder: PreviewRevisionBuilder

    @property
    def stack(self) -> StackObject:
        """Return the Stack as it would be."""
        return self.management.stack


def make_world(
    live: LiveCluster,
    request: PreviewRequest,
    *,
    now: float,
    workload_cluster: LiveCluster | None = None,
    evaluate: Callable[[WorkQueue], Evaluations] = lambda _queue: Unassisted(),
    parts: WorldParts | None = None,
) -> PreviewWorld:
    """Make a world without objects.

    now: seconds since the epoch; workload_cluster: the cluster of the objects, None for the Stack's own; evaluate:
    makes the evaluator of slow expressions; parts: None for the parts of a preview.
    """
    children, parts = workload_cluster or live, parts or WorldParts(clock=StandingClock(now))
    hashes, assumptions, queue = TrustedHashes(), parts.assumptions, WorkQueue()
    evaluations, copies = evaluate(queue), ObjectCopies(hashes)
    management = CopiedManagementCluster(
        live,
        parse(request, {"resourceVersion": "0", "generation": 1}, without_window(request)),
        others=request.stacks,
        beside=request.beside,
        accounts=request.accounts,
    )
    cluster = parts.make_cluster(
        children, copies, assumptions.unknown, accounts=request.accounts, on_kinds=queue.on_kinds
    )
    services = Services(
        management_cluster=management,
        health_marks=copied_management_cluster.NoHealthMarks(),
        snapshots=copied_management_cluster.NoSnapshots(),
        plans=copied_management_cluster.NoPlans(),
        previews=copied_management_cluster.NoPreviews(),
        asks_approval=False,
        workload_cluster=cluster,
        clock=parts.clock,
        hashes=hashes,
        queue=queue,
        backoff=BackoffPolicy(jitter=lambda: 0.5),
        health_rules=parts.make_rules(assumptions.ready, schemas=cluster.kinds, evaluations=evaluations),
        evaluations=evaluations,
        tenancy=request.tenancy,
    )
    return PreviewWorld(
        request=request,
        live=children,
        copies=copies,
        assumptions=assumptions,
        hashes=hashes,
        management=management,
        cluster=cluster,
        services=services,
        builder=PreviewRevisionBuilder(
            management_cluster=management,
            cluster=cluster,
            hashes=hashes,
            evaluations=evaluations,
            tenancy=request.tenancy,
            find_link=services.find_link,
            assumptions=assumptions,
        ),
    )


def without_window(request: PreviewRequest) -> Object:
    """Return the wanted Stack without its window, so that the preview shows the change that waits for it."""
    if request.form is not None:
        # A field of an instance with this name is a parameter.
        return request.wanted
    spec = object_fields.mapping(request.wanted, "spec")
    return {**request.wanted, "spec": {key: value for key, value in spec.items() if key != "window"}}


def parse(request: PreviewRequest, usual: Object, raw: Object) -> StackObject:
    """Return the Stack in an object. usual: metadata that it may lack; a dry run gives a new one no version."""
    whole = {**raw, "metadata": {**usual, **raw["metadata"]}}
    if request.form is None or request.kind is None:
        return stack_cache.parse_stack(whole, kind=str(raw["kind"]))
    forms = InstanceForms(request.form.definition, {request.form.number: request.form}, request.form.number)
    return stack_cache.parse_instance(whole, kind=request.kind, forms=forms)


async def read_children(world: PreviewWorld) -> None:
    """Copy all objects of the Stack, of every kind that it ever applied."""
    if world.request.present is None:
        return
    names = frozenset[str]().union(*(revision.kinds for revision, _ in world.request.revisions))
    kinds = revision_builder.find_served_kinds(world.cluster, names)
    uid = str(world.request.present["metadata"]["uid"])
    lists = await asyncio.gather(*(world.live.list_children(kind, uid) for kind in kinds))
    for kind, found in zip(kinds, lists, strict=True):
        for raw in found:
            world.copies.put(raw, kind=kind, is_live=True)


def parse_present(world: PreviewWorld) -> StackObject | None:
    """Return the Stack as it is."""
    present = world.request.present
    return parse(world.request, {}, present) if present is not None else None


def translate_status(status: Mapping[str, Any], hashes: Mapping[str, str]) -> Object:
    """Return a status with the preview's hashes of definitions. hashes: by the operator's hashes."""

    def translate(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: translate(inner) for key, inner in value.items()}
        return hashes.get(value, value) if isinstance(value, str) else value

    state = status.get("controllerState")
    return {**status, "controllerState": translate(state)} if isinstance(state, dict) else dict(status)


def replace_status(world: PreviewWorld, status: Object) -> None:
    """Replace the status of the Stack in the copy."""
    world.management.stack = dataclasses.replace(world.stack, packed_status=status_fields.pack(status))


class TrustedHashes(KeyedHasher):
    """The hash function of a preview, whose user might not have access to the operator's key.

    Hashes have their own key, and all signatures are trusted. A forged signature can mislead a preview, but never the
    operator.
    """

    __slots__ = ()

    def __init__(self) -> None:
        """Use the key of previews."""
        super().__init__(HASH_KEY)

    def is_signed(self, purpose: str, value: Any, signature: str) -> bool:  # noqa: ARG002 -- the port requires it
        """Return whether it looks like a signature of any operator."""
        return KEYED_HASH.fullmatch(signature) is not None

    def is_comparable(self, text: str) -> bool:
        """Return whether it looks like a hash or signature of any operator."""
        return KEYED_HASH.fullmatch(text) is not None
