"""One Stack whose changes run only as approved: each edit is planned at rest, a hostile writer acts, then it runs.

An oracle compares every change that the operator makes on the server with the plan that was approved then.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies

from hearth.model import names
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import Kind
from hearth.plan.ownership import field_changes
from hearth.plan.target import approved_steps
from hearth.plan.target.approved_steps import ApprovedStep
from hearth.preview import object_copies
from support.checks import stack_plans
from support.fake_world import fake_world
from support.server import fake_kinds
from support.server.request_faults import Request
from support.stateful import random_templates
from support.stateful.random_templates import Drafts, Edit
from support.stateful.session_state import Ordered
from support.stateful.stack_session import ALTERED, Session
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address

ROUNDS = 6
"""Plans of one edit after which it must be complete if the hostile writer rests."""
HOSTILE = "mallory"
PATCHES: Mapping[str, Object] = {
    "add": {"metadata": {"labels": {"mine": "yes"}}},
    "strip": {"metadata": {"labels": dict.fromkeys((names.LABEL_STACK_UID, names.LABEL_STACK, names.LABEL_RESOURCE))}},
    "mark": {"metadata": {"annotations": {names.ANNOTATION_UNHEALTHY: "mine"}}},
    "disown": {"metadata": {"managedFields": [{}]}},
}
"""Merge patches of any object."""
DEEDS = ("delete", "edit", "take", "squat", *PATCHES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One act of the hostile writer."""

    what: str
    at: int
    """Selects the object."""
    request: int
    """The request of the operator for which it acts, after the approval; 0: before the first one."""


deeds = strategies.lists(
    strategies.builds(
        Deed,
        what=strategies.sampled_from(DEEDS),
        at=strategies.integers(0, 7),
        request=strategies.sampled_from((0, 0, *range(1, 12))),
    ),
    min_size=1,
    max_size=4,
)


class ApprovedSession:
    """The world, the Stack and the approved plan."""

    def __init__(self) -> None:
        """Start an operator."""
        self.approved: tuple[ApprovedStep, ...] = ()
        self.wrong: list[str] = []
        self.history: list[object] = []
        self.approvals: list[int] = []
        """The number of approvals that each change needed."""
        self.writes = 0
        """Writes of children that the operator sent."""
        self.acts: Counter[str] = Counter()
        """The acts of the hostile writer."""
        self._requests = 0
        self._waiting: list[Deed] = []
        self.session = Session(delay=None)
        self.session.world.server.watchers.append(self._on_change)
        self.session.world.traffic.listeners.append(self._on_request)

    def close(self) -> None:
        """End everything."""
        self.session.close()

    # ------------------------------------------------------------ the user

    def begin(self, drafts: Drafts, hostile: Sequence[Deed] = ()) -> None:
        """Create the Stack as approved."""
        self.drafts = drafts
        self._run(hostile, is_new=True)

    def edit(self, changes: Sequence[Edit], hostile: Sequence[Deed] = ()) -> None:
        """Edit the Stack as approved."""
        for change in changes:
            self.drafts = random_templates.edit(self.drafts, change)
        self._run(hostile)

    def _run(self, hostile: Sequence[Deed], *, is_new: bool = False) -> None:
        """Order a change, approve its plan, let the hostile writer act, and approve further plans until it is done."""
        spec = {**Ordered(drafts=self.drafts).make_spec(), "approval": "Always"}
        self.history += [spec, *hostile]
        if is_new:
            made = self.session.run(self.session.world.user.create(stack_manifests.make_stack(spec)))
            self.session.uid = made["metadata"]["uid"]
        else:
            self.session.run(self.session.world.user.replace_spec(STACK, spec))
        self.rest()
        rounds = 0
        while self._is_waiting and rounds < ROUNDS:
            rounds += 1
            if rounds == 1:
                self.session.run(self._approve_and_act(hostile))
            else:
                self.session.run(self._approve())
            self.rest()
            self._waiting = []
        if self._is_waiting:
            self.wrong.append(f"still waits after {rounds} plans: {self._find_stack().get('status')}")
        if rounds:
            self.approvals.append(rounds)
        self.wrong += [*self.session.mistakes, *self.session.world.witness.wrong]
        if self.wrong:
            raise AssertionError("\n".join([*self.wrong, *map(str, self.history)]))

    async def _approve_and_act(self, hostile: Sequence[Deed]) -> None:
        """Approve the plan while no operator runs, so that the hostile writer acts before the change begins."""
        await self.session.world.kill_controller()
        await self._approve()
        self._requests, self._waiting = 0, [each for each in hostile if each.request]
        for deed in hostile:
            if not deed.request:
                self.act(deed)
        await self.session.world.start_controller()

    async def _approve(self) -> None:
        """Approve the newest plan, as the webhook does."""
        world = self.session.world
        plans = await world.user.list_plans(self.session.uid)
        plan = next(each for each in reversed(plans) if each["status"]["phase"] == "Pending")
        self.approved = approved_steps.read_steps(plan["spec"]["steps"])
        self.history.append([str(each) for each in self.approved])
        stamp = stack_plans.make_stamp(plan, "approved", signer=fake_world.HASHER, now=world.now())
        await world.user.patch(Address.of(plan), {"metadata": {"annotations": {names.ANNOTATION_APPROVAL: stamp}}})

    def rest(self) -> None:
        self.session.run(self.session.world.wait_rest(find_nothing))

    def _find_stack(self) -> Object:
        found = self.session.world.server.find(fake_kinds.STACK.kind, STACK.namespace, STACK.name)
        assert found is not None
        return found

    @property
    def _is_waiting(self) -> bool:
        """Whether a change waits for an approval."""
        return bool((self._find_stack().get("status") or {}).get("heldChange"))

    @property
    def _is_running(self) -> bool:
        """Whether an approved change is in progress, so that nothing outside of its plan may be written."""
        engine = self.session.world.controllers[0].engine
        reconciler = engine._reconcilers.get(self.session.uid)
        return reconciler is None or not reconciler.definition.targets.is_completed

    # ------------------------------------------------------------ the hostile writer

    def _on_request(self, request: Request) -> None:
        """Act just before a request of the operator takes effect, between its check and its write."""
        if request.verb in ("apply", "delete", "change", "release"):
            self.writes += 1
        if request.verb in ("get", "dry-run", "apply", "delete", "change", "release"):
            self._requests += 1
            due = [each for each in self._waiting if each.request == self._requests]
            for deed in due:
                self.act(deed)

    def act(self, deed: Deed) -> None:
        """Do one thing to one object."""
        self.acts[deed.what] += 1
        server = self.session.world.server
        children = self.session.children()
        if deed.what == "squat":
            self._squat(deed)
            return
        if not children:
            return
        raw = children[deed.at % len(children)]
        kind, metadata = server.find_kind(raw), raw["metadata"]
        place = kind, metadata["namespace"], metadata["name"]
        with contextlib.suppress(ApiStatusError):
            if deed.what == "delete":
                server.delete(*place)
            elif deed.what == "take":
                named = {"namespace": metadata["namespace"], "name": metadata["name"]}
                stated = object_copies.merge(make_edit(raw), {"metadata": named})
                taken = {"apiVersion": raw["apiVersion"], "kind": raw["kind"], **stated}
                server.apply(taken, kind=kind, manager=HOSTILE, force=True)
            else:
                server.patch(*place, make_edit(raw) if deed.what == "edit" else PATCHES[deed.what], manager=HOSTILE)

    def _squat(self, deed: Deed) -> None:
        """Create an object with the name of one that the plan creates."""
        created = [each.ref for each in self.approved if each.action in ("create", "replace") and each.ref]
        if not created:
            return
        ref = created[deed.at % len(created)]
        if ref.kind != "ConfigMap":
            return
        metadata = {"namespace": ref.namespace, "name": ref.name}
        with contextlib.suppress(ApiStatusError):
            self.session.world.server.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": "mine"}}, manager=HOSTILE
            )

    # ------------------------------------------------------------ the oracle

    def _on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Compare a change that the operator makes with the approved plan."""
        acting, raw = self.session.world.traffic.acting, after if after is not None else before
        if acting is None or raw is None or kind.name not in (*ALTERED, random_templates.CLAIM):
            return
        if acting.kind == kind and acting.name == raw["metadata"]["name"] and self._is_running:
            self.wrong += [
                f"outside of the plan: {acting} {each}" for each in find_excess(self.approved, kind, before, after)
            ]


def make_edit(raw: Object) -> Object:
    """Another value of a field that the operator owns."""
    part, key = ALTERED.get(raw["kind"], ("metadata", "annotations"))
    return {part: {key: {"uses": "mine"} if part == "metadata" else "mine"}}


async def find_nothing() -> list[str]:
    return []


def find_excess(
    steps: Sequence[ApprovedStep], kind: Kind, before: Object | None, after: Object | None
) -> Iterator[str]:
    """Everything in one change of an object that no step of the plan names."""
    raw = after if after is not None else before
    assert raw is not None
    name = raw["metadata"]["name"]
    created = [each for each in steps if each.action in ("create", "replace") and is_named(each.ref, kind, name)]
    if before is None:
        if not created:
            yield "created"
        return
    is_deleted = after is None or (
        "deletionTimestamp" in after["metadata"] and "deletionTimestamp" not in before["metadata"]
    )
    if is_deleted:
        doomed = [
            each.old_ref if each.action == "replace" else each.ref
            for each in steps
            if each.action in ("delete", "replace")
        ]
        if not created and not any(is_named(each, kind, name) for each in doomed):
            yield "deleted"
        return
    assert after is not None
    planned = {
        field
        for each in steps
        if each.action in ("update", "adopt") and is_named(each.ref, kind, name)
        for field in each.fields
    }
    for change in field_changes.find_changes(before, after):
        if not created and not any(
            change.text == each or change.text.startswith((f"{each}.", f"{each}[")) for each in planned
        ):
            yield f"{change.text}: {change.old} -> {change.new}"


def is_named(ref: Any, kind: Kind, name: str) -> bool:
    """Whether a reference in a plan names the object, perhaps by a placeholder."""
    return ref is not None and ref.kind == kind.name and ("known after" in ref.name or ref.name == name)
