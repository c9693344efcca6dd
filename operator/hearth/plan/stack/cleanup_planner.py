"""Plans the obsolete objects of one Stack: which ones to delete, release, restore or keep, and when."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from hearth.model import members, value_class
from hearth.model.child import Child
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.environment.environment_rules import Action, EnvironmentRule
from hearth.plan.resource import enforcement, readiness, step_planning, suspend_object
from hearth.plan.resource.desired_objects import WantedObjects
from hearth.plan.resource.suspend_object import SuspendRecords
from hearth.plan.retry.backoff import RemovalAttempt
from hearth.plan.stack import cleanup, member_removals
from hearth.plan.stack.cleanup import ObsoleteChildren
from hearth.plan.stack.plan_index import PlanIndex
from hearth.plan.state import internal_errors, stack_tree
from hearth.plan.state.cleanup_policy import CleanupPolicy
from hearth.plan.state.internal_errors import OnError
from hearth.plan.state.memory import InMemoryState, Observation, ObservedChildren
from hearth.plan.state.plan_input import PlanInput
from hearth.plan.state.resource_status import AttemptFailed, AttemptObsolete, ResourceStatus
from hearth.plan.state.stack_tree import TreeClaim
from hearth.plan.state.steps import Delete, Release, Step
from hearth.template.blueprint import Blueprint

# Deletions that a breakpoint or a denied Delete prevents, and deletions after which a resource stops. Covers only
# objects of removed resources: the deletion of an earlier incarnation is part of a replacement.


PROTECTED: Final = "Protected"
"""The reason of a deletion that `spec.protected` forbids."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A change that removes more resources than `spec.maxRemoved` allows."""

    removed: frozenset[str]
    """The resources of the earlier revisions that the target does not have."""
    total: int
    """The number of all resources of the earlier revisions."""
    limit: int | str

    def __str__(self) -> str:
        number = len(self.removed)
        return f"{number} of {self.total} resources are removed, more than spec.maxRemoved allows ({self.limit})"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HeldDeletion:
    """A deletion that is prevented: by the environment, by the protection of a nested Stack, or by `spec.maxRemoved`."""

    child: Child
    rule: EnvironmentRule | None = None
    """The rule that denies the deletion; None for none."""
    protection: str = ""
    """Why a nested Stack must not be deleted; "" if it may be."""
    is_excessive: bool = False
    """Whether it waits for the user's consent, because the change removes too many resources."""

    @property
    def is_denied(self) -> bool:
        """Return whether only a change of a spec allows it. Otherwise, it waits for a request by the user."""
        return self.rule is not None or bool(self.protection)

    @property
    def reason(self) -> str:
        """Return the reason of the denial."""
        return PROTECTED if self.protection else enforcement.RESTRICTED

    @property
    def message(self) -> str:
        """Return what denies the deletion, and how to allow it; "" at a breakpoint."""
        if self.protection or self.rule is None:
            return self.protection
        return enforcement.explain_restriction(self.rule, Action.DELETE)


@dataclass(slots=True)
class DeletionGuard:
    """Deletions of one Stack that its environment, or the protection of nested Stacks, prevents."""

    desired: Collection[str]
    """The resources of the target."""
    input: PlanInput
    held_deletions: dict[str, HeldDeletion] = field(default_factory=dict)
    """By UID."""
    unrecorded: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The requirements of resources whose deletion must be recorded first, because their requirements are unknown
    afterwards."""
    excess: Excess | None = None
    """The removals beyond the limit, or None. All deletions of these resources then wait."""

    @property
    def environment(self) -> ActiveEnvironment:
        """Return the restrictions on the steps that the user set."""
        return self.input.environment

    def filter(self, uid: str, step: Delete | Release | None) -> Delete | Release | None:
        """Return the step for an obsolete object, or None if it is prevented."""
        self.held_deletions.pop(uid, None)
        if isinstance(step, Delete) and (protection := self.input.tree.explain_protection(step.child)):
            self.held_deletions[uid] = HeldDeletion(child=step.child, protection=protection)
            return None
        if not isinstance(step, Delete) or step.child.resource in self.desired:
            return step
        child = step.child
        if self.excess is not None and child.resource in self.excess.removed:
            self.held_deletions[uid] = HeldDeletion(child=child, is_excessive=True)
            return None
        if self.environment.is_unrestricted:
            return step
        rule = self.environment.rules.find_restriction(child.resource, Action.DELETE)
        if rule is not None or self.environment.stops_at(child.resource, enforcement.BEFORE[Action.DELETE]):
            self.held_deletions[uid] = HeldDeletion(child=child, rule=rule)
            return None
        is_recorded = child.resource in self.environment.cleared.post_delete or not self.environment.can_record
        if self._stops_after(child.resource) and not is_recorded:
            requires = map(cleanup.resource_of, child.requires)
            self.unrecorded[child.resource] = tuple(dict.fromkeys(requires))
            return None
        return step

    def take_unrecorded(self) -> dict[str, tuple[str, ...]]:
        """Return the deletions to record, and clear the list."""
        taken, self.unrecorded = self.unrecorded, {}
        return taken

    def find_post_delete(self, obsolete: Collection[str]) -> Iterator[str]:
        """Find the resources that stop after their deletion. obsolete: the resources that still have an object."""
        if not self.environment.is_unrestricted:
            for name in self.environment.cleared.post_delete:
                if name not in obsolete and name not in self.desired and self._stops_after(name):
                    yield name

    def is_required(self, resource: str, obsolete: Collection[str]) -> bool:
        """Return whether a resource that stops after its deletion required that resource."""
        post_delete = self.environment.cleared.post_delete
        stopped = self.find_post_delete(obsolete) if post_delete else ()
        return any(members.is_among(resource, post_delete[name]) for name in stopped)

    @property
    def denied(self) -> list[HeldDeletion]:
        """Return the deletions that a rule or a protection denies, in a stable order."""
        found = (held for held in self.held_deletions.values() if held.is_denied)
        return sorted(found, key=lambda held: (held.child.resource, held.child.name))

    def _stops_after(self, resource: str) -> bool:
        return self.environment.stops_at(resource, enforcement.AFTER[Action.DELETE])


@value_class.dataclass(frozen=True, slots=True)
class WithheldObject:
    """An obsolete object that stays for another Stack of the tree."""

    child: Child
    claim: TreeClaim


class CleanupPlanner:
    """Planner of the obsolete objects of one Stack."""

    _is_freed = False
    """Whether an object that was withheld at the last refresh no longer is."""

    def __init__(
        self,
        *,
        blueprint: Blueprint,
        index: PlanIndex,
        records: SuspendRecords,
        wanted: WantedObjects,
        plan_input: PlanInput,
        on_error: OnError,
    ) -> None:
        """Create a planner without objects. index: receives the steps; on_error: see `StackPlanner`."""
        self.obsolete = ObsoleteChildren()
        self.preserved: dict[str, Child] = {}
        """The obsolete objects that cleanup preserves, by UID."""
        self.withheld: dict[str, WithheldObject] = {}
        """By UID: the obsolete objects that other Stacks of the tree name, or might name. The Stack waits for none of
        them."""
        self.guard = DeletionGuard(desired=blueprint.resources, input=plan_input)
        self._blueprint = blueprint
        self._index = index
        self._records = records
        self._wanted = wanted
        self._generation = wanted.generation
        """The generation of `wanted` at the last refresh."""
        self._named: dict[str, None] = {}
        """UIDs of the obsolete objects that a resource names, or might name."""
        self._moving: dict[str, None] = {}
        """The resources that name an object which became obsolete since the planner last emptied this map."""
        self._on_error = on_error
        self._by_resource: dict[str, tuple[Child, ...]] = {}
        self._users = UsageIndex()
        self._decided: tuple[CleanupPolicy, Blueprint | None] = (plan_input.cleanup, None)
        """What the last check of the removals used."""
        self._was = (False, False, False)
        """State at the last refresh: whether all resources were ready, whether any had failed, and whether the caches
        might lack objects."""
        self._short: Collection[str] = ()
        """The collections with too few members in service at the last refresh."""

    @property
    def names(self) -> Collection[str]:
        """Return the resources with obsolete objects."""
        return self._by_resource.keys()

    def update_blueprint(self, blueprint: Blueprint) -> None:
        """Continue with another blueprint of the same resources."""
        self._blueprint = blueprint
        self.guard.desired = blueprint.resources

    @property
    def _input(self) -> PlanInput:
        return self.guard.input

    def follow(self, plan_input: PlanInput) -> None:
        """Plan from now on with that input. If it allows other deletions, the next refresh plans all objects."""
        before, self.guard.input = self.guard.input, plan_input
        if (before.cleanup, before.environment) != (plan_input.cleanup, plan_input.environment):
            self.refresh_all()

    def refresh_all(self) -> None:
        """Plan all objects again at the next refresh."""
        self.obsolete.changed.update(dict.fromkeys(self.obsolete.children))

    def on_suspended(self) -> None:
        """Plan all objects again at the first refresh after a suspension."""
        self._was = (False, False, False)

    def on_status(self, name: str, before: ResourceStatus | None, after: ResourceStatus) -> None:
        """Follow a changed status of a resource, which may allow or forbid deletions."""
        if before is not None and before.is_ready and after.is_ready:
            # A ready resource uses no incarnation, so nothing changes.
            return
        for left in self._users.update(name, before, after):
            self.obsolete.changed.update(dict.fromkeys(self.obsolete.at(left)))
        if before is None or before.is_ready != after.is_ready:
            self.obsolete.changed.update((child.uid, None) for child in self._by_resource.get(name, ()))

    def sort_out(self, name: str, *, chosen: Child | None, children: tuple[Child, ...]) -> None:
        """Update which objects with a resource's label are obsolete."""
        before = self._by_resource.get(name, ())
        if not before and len(children) == 1 and children[0] is chosen and not (self.preserved or self.withheld):
            # The usual case, for every resource in every full refresh.
            return
        after = tuple(child for child in children if child.is_identified and child is not chosen)
        if self._input.cleanup.preserves_data:
            after = self._spare(name, after)
        if self.withheld:
            after = self._exclude_withheld(name, after)
        self._set(name, before, after)

    def _exclude_withheld(self, name: str, obsolete: tuple[Child, ...]) -> tuple[Child, ...]:
        """Return the obsolete objects of a resource, except objects that stay for another Stack."""
        present = {child.uid: child for child in obsolete}
        for uid, each in list(self.withheld.items()):
            if each.child.resource == name:
                if uid in present and not present[uid].deleting:
                    self.withheld[uid] = WithheldObject(present[uid], each.claim)
                else:
                    self._index.plan(uid, step=None, wake_at=None)
                    del self.withheld[uid]
                    self._is_freed = True
        return tuple(child for child in obsolete if child.uid not in self.withheld)

    def _set(self, name: str, before: tuple[Child, ...], after: tuple[Child, ...]) -> None:
        """Replace the obsolete objects of a resource."""
        if before == after:
            return
        self.obsolete.replace(before, after)
        for child in after:
            # The resource may have been planned before its object became obsolete, as if it had none.
            owner = self._wanted.find_owner(child.ref)
            if owner and owner != name:
                self._moving[owner] = None
        if after:
            self._by_resource[name] = after
        else:
            self._by_resource.pop(name, None)

    def _spare(self, name: str, obsolete: tuple[Child, ...]) -> tuple[Child, ...]:
        """Return the obsolete objects of a resource, except objects that cleanup preserves."""
        for uid in [uid for uid, child in self.preserved.items() if child.resource == name]:
            del self.preserved[uid]
        for child in obsolete:
            if self._input.cleanup.preserves(child, is_retained=self._is_left_retained(child)):
                self.preserved[child.uid] = child
        return tuple(child for child in obsolete if child.uid not in self.preserved)

    def _is_left_retained(self, child: Child) -> bool:
        """Return whether the target lacks the resource of a retained object that the Stack created."""
        is_wanted = child.resource in self._blueprint.resources
        return not is_wanted and not child.is_adopted and step_planning.is_retained(child, self._blueprint)

    def take_moving(self) -> Collection[str]:
        """Return the resources that name an object which became obsolete, and clear the list."""
        if not self._moving:
            return ()
        taken, self._moving = self._moving, {}
        return [name for name in taken if name in self._blueprint.resources]

    def is_free(self, child: Child, *, by: str) -> bool:
        """Whether no resource names that object, except one that removes it to replace it."""
        naming = self._wanted.find_naming(child)
        if naming is not None:
            return naming.resource == by
        return by != child.uid or self._input.tree.find_claim(child) is None

    def claim(self, child: Child | None, children: ObservedChildren) -> None:
        """Exclude from the cleanup an object that belonged to another resource until it was relabeled."""
        obsolete = self.obsolete.children.get(child.uid) if child is not None else None
        if obsolete is not None:
            status = self._index.statuses.get(obsolete.resource)
            chosen = status.child if status is not None else None
            self.sort_out(obsolete.resource, chosen=chosen, children=children.of(obsolete.resource))

    def refresh(
        self,
        dirty: Collection[str],
        observation: Observation,
        *,
        is_ready: bool,
        short: Collection[str],
        may_miss: bool,
    ) -> None:
        """Plan the changed objects, and the objects in `dirty`, by UID.

        is_ready: whether all resources are ready; short: the collections with too few members in service; may_miss:
        whether the caches may lack objects of the Stack.
        """
        found = (is_ready, self._index.has_stuck, may_miss)
        self._refresh_excess(observation.children)
        if (found, short) != (self._was, self._short):
            self._was, self._short = found, short
            self.refresh_all()
        if self._generation != self._wanted.generation:
            self._generation = self._wanted.generation
            self.obsolete.changed.update(dict.fromkeys(uid for uid in self._named if uid in self.obsolete.children))
        self._review(dirty)
        self.obsolete.is_expected = observation.memory.is_creating_besides(self._blueprint.resources)
        self.obsolete.changed.update((key, None) for key in dirty if key in self.obsolete.children)
        while self.obsolete.changed:
            # An object that stays for another Stack leaves the deletion order, which may unblock others.
            changed, self.obsolete.changed = self.obsolete.changed, {}
            for uid in changed:
                self._refresh_safely(uid, self.obsolete.children.get(uid), observation)

    def _refresh_excess(self, children: ObservedChildren) -> None:
        """Compare the target with the earlier revisions, not with what exists: a count of objects falls while some are
        deleted, so that the others would lose their protection.
        """
        if self._input.cleanup.max_removed is None and self.guard.excess is None:
            return
        decided = (self._input.cleanup, self._blueprint)
        if decided[0] == self._decided[0] and decided[1] is self._decided[1] and decided[0].protected_names is not None:
            return
        self._decided = decided
        excess, self.guard.excess = self.guard.excess, self._find_excess(children)
        if excess != self.guard.excess:
            self.refresh_all()

    def _find_excess(self, children: ObservedChildren) -> Excess | None:
        """Return the removals beyond the limit, or None. If the earlier revisions are unknown, objects count instead."""
        policy = self._input.cleanup
        if policy.max_removed is None or policy.is_waived:
            return None
        known = policy.protected_names
        earlier = {*children.resources()} if known is None else set[str]().union(*known)
        counted = {name for name in earlier if not self._has_own_limit(name)}
        removed = frozenset(name for name in counted if name not in self._blueprint.resources)
        if member_removals.is_within(len(removed), of=len(counted), most=policy.max_removed):
            return None
        return Excess(removed=removed, total=len(counted), limit=policy.max_removed)

    def _has_own_limit(self, name: str) -> bool:
        """Return whether a resource is a member of a collection that limits its removals."""
        collection = self._blueprint.collections.get(members.root_of(name))
        return collection is not None and collection.max_removed is not None

    def _refresh_safely(self, uid: str, child: Child | None, observation: Observation) -> None:
        """Plan one object. After an internal error, the other objects continue."""
        try:
            self._refresh_one(uid, child, observation.memory, now=observation.now)
        except Exception as error:  # noqa: BLE001 -- the other objects continue; `on_error` reports it
            resource, ref = (child.resource, str(child.ref)) if child is not None else ("", uid)
            self._on_error(resource, error)
            before, subject = observation.memory.attempts.get(uid), RemovalAttempt(uid=uid)
            failed = internal_errors.make_attempt(before, subject=subject, what=f"delete {ref}", now=observation.now)
            self._index.result.memory_updates.append(AttemptFailed(key=uid, attempt=failed))
            self._index.plan(uid, step=None, wake_at=failed.retry_at)

    def _review(self, dirty: Collection[str]) -> None:
        """Review the objects in `dirty` that stayed for another Stack, because that Stack may no longer want them."""
        if not self.withheld:
            return
        # If an object stayed, its requirements stayed as well.
        found = [uid for uid in self.withheld if self._is_freed or uid in dirty]
        if any(self.withheld[uid].child.uid in dirty for uid in found):
            found = list(self.withheld)
        self._is_freed = False
        for uid in found:
            child = self.withheld.pop(uid).child
            before = self._by_resource.get(child.resource, ())
            self._set(child.resource, before, (*before, child))

    def _ask_tree(self, child: Child) -> TreeClaim | None:
        """Return the claim of another Stack of the tree on an object that this one does not name.

        If the object stays, its requirements stay with it. Otherwise, it would use deleted objects.
        """
        if not self._is_unnamed(child):
            return None
        if (claim := self._input.tree.find_claim(child)) is not None or not self.withheld:
            return claim
        keys = cleanup.find_keys(child)
        users = (each for each in self.withheld.values() if not set(keys).isdisjoint(each.child.requires))
        user = next(users, None)
        return TreeClaim(stack=user.claim.stack, resource=user.claim.resource) if user is not None else None

    def _set_withheld(self, child: Child, claim: TreeClaim, *, now: float) -> None:
        """Let an object stay for another Stack of the tree; this Stack does not wait for it."""
        before = self._by_resource.get(child.resource, ())
        self.withheld[child.uid] = WithheldObject(child, claim)
        self._set(child.resource, before, tuple(each for each in before if each.uid != child.uid))
        self.obsolete.changed.pop(child.uid, None)
        self.guard.filter(child.uid, None)
        self._index.plan(child.uid, step=None, wake_at=now + stack_tree.LOOK_AGAIN)

    def _refresh_one(self, uid: str, child: Child | None, memory: InMemoryState, *, now: float) -> None:
        if child is None:
            self._named.pop(uid, None)
        is_leaving = child is None or child.deleting or uid in memory.in_flight
        claim = self._ask_tree(child) if child is not None and not is_leaving else None
        if child is not None and claim is not None and not claim.is_pending:
            self._set_withheld(child, claim, now=now)
            return
        attempt = memory.attempts.get(uid)
        may_go = child is not None and uid not in memory.in_flight and self._may_go(child, memory)
        leave = (
            step_planning.plan_removal(child, self._blueprint, self._input.tree.find_contents)
            if child is not None and may_go
            else None
        )
        allowed = self.guard.filter(uid, leave)
        step: Step | None = (allowed if claim is None else None) or self._restore(child, memory)
        if step is None:
            if child is not None and child.deleting and attempt is not None:
                # The deletion happened, regardless of the response.
                self._index.result.memory_updates.append(AttemptObsolete(key=uid))
            self._index.plan(uid, step=None, wake_at=self._find_next_look(uid, claim, is_leaving=is_leaving, now=now))
        elif attempt is not None and attempt.retry_at > now:
            self._index.plan(uid, step=None, wake_at=attempt.wake_at)
        else:
            self._index.plan(uid, step=step, wake_at=None)

    def _find_next_look(self, uid: str, claim: TreeClaim | None, *, is_leaving: bool, now: float) -> float | None:
        """Return when to ask the tree again if no event reports the change; None for never."""
        if is_leaving or uid in self.guard.held_deletions:
            return None
        if claim is not None:
            return now + stack_tree.LOOK_SOON
        return now + stack_tree.LOOK_AGAIN if self._input.tree.has_foreign() else None

    def _restore(self, child: Child | None, memory: InMemoryState) -> Step | None:
        """Make the step that resumes a suspended obsolete object while a resource has failed or is stopped."""
        if child is None or child.deleting or child.uid in memory.in_flight or not self._index.has_stuck:
            return None
        return suspend_object.restore(child, self._records) if self._records.is_suspended_now(child) else None

    def _may_go(self, child: Child, memory: InMemoryState) -> bool:
        """Return whether the operator may delete an obsolete object now."""
        if not self._is_unnamed(child):
            return False
        keys = cleanup.find_keys(child)
        if not self.obsolete.may_delete(child.uid) or any(map(self._users.is_used, keys)):
            return False
        if self.guard.is_required(child.resource, self._by_resource) or any(map(memory.is_being_used, keys)):
            return False
        is_ready, _, may_miss = self._was
        if may_miss:
            # An object that is not cached yet may require this one.
            return False
        if is_ready:
            return True
        status = self._index.statuses.get(child.resource)
        if self._input.cleanup.is_waived:
            # A request for cleanup makes room for the next object. It does not override the reasons that delay that object.
            return status is None or not enforcement.is_held(status)
        if self._is_kept(child) or self._is_in_service(child):
            return False
        return status is None or status.is_ready

    def _is_unnamed(self, child: Child) -> bool:
        """Return whether no resource of this Stack names that object, or might name it."""
        if self._wanted.find_naming(child) is None:
            self._named.pop(child.uid, None)
            return True
        self._named[child.uid] = None
        return False

    def _is_kept(self, child: Child) -> bool:
        """Return whether a completed revision needs that object."""
        status = self._index.statuses.get(child.resource)
        chosen = (status.child,) if status is not None and status.child is not None else ()
        return self._input.cleanup.protects(child, present=(*self._by_resource.get(child.resource, ()), *chosen))

    def _is_in_service(self, child: Child) -> bool:
        """Return whether the object is a removed member that is ready while too few other members are.

        A member that is not ready may be deleted. That makes room if, for example, a quota blocks the next one.
        """
        if child.resource in self._index.statuses or members.root_of(child.resource) not in self._short:
            return False
        return readiness.serves(child, self._records.rules)

    def find_deferred(self) -> list[Child]:
        """Find the objects that a completed revision needs, or that are in service. Checks all objects."""
        found = (each for each in self.obsolete.children.values() if each.uid not in self._named)
        return [each for each in found if self._is_kept(each) or self._is_in_service(each)]

    def find_unnamed(self) -> dict[str, list[Child]]:
        """Find, by resource, the objects that stay until the name of its object is known."""
        found: dict[str, list[Child]] = {}
        for uid in self._named:
            child = self.obsolete.children.get(uid)
            naming = self._wanted.find_naming(child) if child is not None else None
            if child is not None and naming is not None and not naming.is_certain:
                found.setdefault(naming.resource, []).append(child)
        return found

    def find_post_delete_stops(self) -> list[str]:
        """Find the deleted resources that still stop at their post-delete hook."""
        return list(self.guard.find_post_delete(self._by_resource))


@dataclass(slots=True)
class UsageIndex:
    """Resources by the incarnation keys (`name/incarnation`) of the objects whose values their own objects contain.

    A ready resource does not count: its manifest was evaluated against the current objects, regardless of its record.
    """

    _resources: dict[str, set[str]] = field(default_factory=dict)

    def update(self, name: str, before: ResourceStatus | None, after: ResourceStatus) -> set[str]:
        """Update the status of a resource; return the incarnation keys that no resource uses any longer."""
        old, new = _uses(before), _uses(after)
        if old == new:
            return set()
        left = set()
        for place in old:
            users = self._resources[place]
            users.discard(name)
            if not users:
                del self._resources[place]
                left.add(place)
        for place in new:
            self._resources.setdefault(place, set()).add(name)
            left.discard(place)
        return left

    def is_used(self, place: str) -> bool:
        """Return whether any resource still uses that incarnation."""
        return place in self._resources


def _uses(status: ResourceStatus | None) -> tuple[str, ...]:
    if status is None or status.is_ready or status.child is None:
        return ()
    return status.child.requires
