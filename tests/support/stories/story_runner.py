"""Plays a story in a world, step by step, and reports differences from its expectations.

Uses only the protocol of worlds, so that one story runs in all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model import names, phases
from hearth.model.child import Object
from hearth.plan.target import approved_steps
from support.checks import expectations, group_expansion, secret_leaks, stored_revisions, template_verification
from support.checks.expectations import Seen
from support.stories import actions, story
from support.stories.story import Step, Story
from support.stories.world import Address, World

DISTURBED_PATIENCE = 600.0
"""Seconds; twice the longest backoff."""


class StoryFailed(AssertionError):
    """The result differs from the story; the message lists all differences."""


@dataclass(slots=True)
class StackPlayed:
    """The runner's data about one Stack of the story."""

    name: str
    kind: str = names.STACK
    removed: set[int] = field(default_factory=set)
    """Groups only: the indices that removal policies named before."""
    spec: Object = field(default_factory=dict)
    """The last applied spec, in the story's short form."""
    revisions: dict[int, Object] = field(default_factory=dict)
    """The accepted specs by revision number."""
    uid: str = ""
    uids: dict[str, str] = field(default_factory=dict)
    """The UID of the child after the last step, by resource."""
    phase: phases.Phase | None = None
    is_retried: bool = False
    """Whether a retry was pending after the last step. It may have happened at any time since."""

    def note(self, found: Object) -> None:
        """Remember the spec of a revision."""
        target = expectations.status_of(found).get("target") or {}
        is_present = expectations.status_of(found).get("observedGeneration") == found["metadata"]["generation"]
        if target.get("cause") == "Spec" and is_present:
            self.revisions.setdefault(target["revision"], self.spec)

    def find_wanted(self, found: Object) -> Object:
        """The spec that the Stack reports as its target."""
        target = expectations.status_of(found).get("target") or {}
        if target.get("cause", "Spec") == "Spec":
            return self.spec
        nothing: Object = {"template": {"resources": {}}}
        return self.revisions[target["revision"]] if target["revision"] else nothing


CLUSTER_SCOPED = frozenset({"Namespace", "StackTemplate", "PersistentVolume"})


class Play:
    """One performance of one story."""

    def __init__(self, played: Story, world: World, *, is_strict: bool = True) -> None:
        """is_strict: also check expectations that only hold without disturbance, for example the number of requests."""
        self._story = played
        self._world = world
        self._is_strict = is_strict
        self._is_late = False
        self.stacks = {name: StackPlayed(name=name, kind=kind) for name, kind in played.stacks.items()}
        self.others: list[Address] = []
        """The objects that the story itself created."""
        self.definitions: list[Address] = []
        """The StackDefinitions of its Stacks, if the Stacks are instances."""

    async def perform(self) -> None:
        """Play all steps, then delete every Stack; nothing may be left. Raises StoryFailed."""
        self._world.tenancy = self._story.tenancy
        for cluster in self._story.clusters:
            await self._world.add_cluster(cluster)
            self.others.append(self.parse_address(f"v1/Secret/{cluster}"))
        await self._world.start_controller()
        for number, step in enumerate(self._story.steps, 1):
            await self._play_step(step, where=f"{self._story.slug}, step {number} ({step.action})")
        await self.before_end()
        await self._end()
        await self.after_end()

    async def after_end(self) -> None:
        """Called when the whole story is deleted; does nothing by default."""

    async def before_end(self) -> None:
        """Called between the last step and the end; does nothing by default."""

    async def _play_step(self, step: Step, *, where: str) -> None:
        stack = self.stacks[step.stack]
        requests, events = len(self._world.traffic.requests), len(self._world.traffic.events)
        await actions.act(step, stack, self)

        async def look(wanted: Mapping[str, Any]) -> list[str]:
            return await self._compare(wanted, stack, requests=requests, events=events)

        # With disturbances, a retry may come later.
        patience = step.patience if self._is_strict else max(step.patience, DISTURBED_PATIENCE)
        if step.until is not None:
            until = self._strictness(step.until, stack)
            wrong = await self._world.wait_until(lambda: look(until))
            if wrong and not self._is_strict:
                # With disturbances, intermediate results may differ, so the objects of the next step are unknown too.
                self._is_late, wrong = True, []
        else:
            wrong = await self._world.wait_rest(lambda: look(self._strictness(step.expect, stack)), patience=patience)
        if wrong:
            raise StoryFailed("\n  ".join([f"{where}:", *wrong]))
        seen = await self._look(stack, requests=requests, events=events, others=())
        if leaks := await self._find_leaks(stack, seen):
            raise StoryFailed("\n  ".join([f"{where}:", *leaks]))
        stack.uids = {name: found[0]["metadata"]["uid"] for name, found in seen.children.items() if len(found) == 1}
        problems = expectations.status_of(seen.stack).get("problems") or ()
        # A step outside the approved plan is found again after a restart, as a failed one is tried again.
        stack.is_retried = any("nextRetryTime" in each or each["reason"] == approved_steps.REASON for each in problems)

    async def _find_leaks(self, stack: StackPlayed, seen: Seen) -> list[str]:
        """Places with readable sensitive values."""
        stored = await self._world.user.find_revisions(stack.uid) if stack.uid else []
        kept = stored_revisions.read_all(stored)
        return [
            *secret_leaks.find_leaks("the status", expectations.status_of(seen.stack)),
            *secret_leaks.find_leaks("a revision", kept),
            *secret_leaks.find_leaks("an Event", self._world.traffic.events),
        ]

    def _strictness(self, expected: Mapping[str, Any], stack: StackPlayed) -> Mapping[str, Any]:
        """The expectations that apply to this performance."""
        if self._is_late and str(expected.get("phase", "")).endswith("InProgress"):
            # The situation that the step wanted to interrupt is already over.
            return {}
        if not self._is_strict:
            skipped = {"requests", "events"} | ({"same", "new"} if self._is_late else set())
            return {word: wanted for word, wanted in expected.items() if word not in skipped}
        if self._world.has_virtual_time or "requests" not in expected:
            return expected
        if stack.is_retried:
            # In real time, one additional or missing retry of an earlier refusal is acceptable.
            return {word: wanted for word, wanted in expected.items() if word != "requests"}
        exact = {verb: count for verb, count in expected["requests"].items() if isinstance(count, int)}
        return {**expected, "requests": exact}

    async def _compare(self, wanted: Mapping[str, Any], stack: StackPlayed, *, requests: int, events: int) -> list[str]:
        """The current differences; while the phase differs, no requests are sent to the server."""
        if "phase" in wanted:
            found = await self._world.user.find(self.address_of(stack.name))
            if found is not None and (wrong := list(expectations.judge_phase(wanted["phase"], found))):
                return wrong
        seen = await self._look(stack, requests=requests, events=events, others=tuple(wanted.get("others", ())))
        wrong = expectations.find_wrong(wanted, seen)
        phase = str(wanted.get("phase", ""))
        # A suspended Stack is unchanged except for stopped workloads; only its own story can check those.
        is_whole = phase.endswith("Complete") and phase != "SuspendComplete" and not expectations.is_left_drifted(seen)
        if is_whole and seen.stack is not None and not wrong:
            spec = story.expand(stack.find_wanted(seen.stack))
            if stack.kind == names.GROUP_KIND:
                spec = group_expansion.expand(spec, removed=stack.removed)
            wrong = template_verification.find_wrong(spec, seen.stack, seen.children)
        return wrong

    async def _look(self, stack: StackPlayed, *, requests: int, events: int, others: tuple[str, ...]) -> Seen:
        """The current state."""
        found = await self._world.user.find(self.address_of(stack.name))
        if found is not None:
            stack.uid = found["metadata"]["uid"]
            stack.note(found)
        children = await self._world.user.find_children(stack.uid, self._story.kinds) if stack.uid else []
        plans = await self._world.user.list_plans(stack.uid) if self._story.has_plans and stack.uid else []
        return Seen(
            stack=found,
            plans=plans,
            children=expectations.by_resource(children),
            before=stack.uids,
            requests=Counter(request.verb for request in self._world.traffic.requests[requests:]),
            events=[reason for name, _, reason, _ in self._world.traffic.events[events:] if name == stack.name],
            others={text: await self._world.user.find(self.parse_address(text)) for text in others},
        )

    async def _end(self) -> None:
        """Delete the story's objects and check that nothing remains."""
        self._world.traffic.troubles.clear()
        left = []
        for stack in self.stacks.values():
            address = self.address_of(stack.name)
            if await self._world.user.find(address) is not None:
                await self._world.user.delete(address)
        for stack in self.stacks.values():

            async def look(stack: StackPlayed = stack) -> list[str]:
                return await self._compare(
                    {"stack": "gone", "nothing-left": True}, stack, requests=0, events=0
                ) + await self._find_revisions(stack)

            left += [f"{stack.name}: {text}" for text in await self._world.wait_rest(look)]
        for address in self.others:
            if await self._world.user.find(address) is not None:
                await self._world.user.delete(address)
        if left:
            raise StoryFailed("\n  ".join([f"{self._story.slug}, after the end:", *left]))

    async def _find_revisions(self, stack: StackPlayed) -> list[str]:
        """The revisions that outlived their Stack."""
        left = await self._world.user.find_revisions(stack.uid) if stack.uid else []
        return [f"the revision {raw['metadata']['name']} is left" for raw in left]

    # ------------------------------------------------------------ for actions

    @property
    def world(self) -> World:
        """The world that the story is played in."""
        return self._world

    async def put(self, stack: StackPlayed, spec: Object) -> None:
        """Create the Stack, or replace its spec."""
        address = self.address_of(stack.name)
        if await self._world.user.find(address) is not None:
            await self._world.user.replace_spec(address, spec)
            return
        metadata = {"name": address.name, "namespace": address.namespace}
        stack.uids = {}
        await self._world.user.create(
            {"apiVersion": address.api_version, "kind": address.kind, "metadata": metadata, "spec": spec}
        )

    def address_of(self, stack: str) -> Address:
        """The address of that Stack or group."""
        return Address(
            api_version=f"{names.GROUP}/{names.VERSION}",
            kind=self.stacks[stack].kind,
            namespace=self._world.namespace,
            name=stack,
        )

    def parse_address(self, text: str) -> Address:
        """The object that a story calls `v1/ConfigMap/name`."""
        api_version, kind, name = text.rsplit("/", 2)
        namespace = "" if kind in CLUSTER_SCOPED else self._world.namespace
        return Address(api_version=api_version, kind=kind, namespace=namespace, name=name)

    async def find_children(self, stack: StackPlayed, resource: str) -> list[Object]:
        children = await self._world.user.find_children(stack.uid, self._story.kinds)
        return expectations.by_resource(children).get(resource, [])

    async def get_child(self, stack: StackPlayed, resource: str) -> Object:
        if not stack.uid:
            raise StoryFailed(f"{self._story.slug}: the stack {stack.name} was never seen")
        children = await self._world.user.find_children(stack.uid, self._story.kinds)
        found = expectations.by_resource(children).get(resource, [])
        if len(found) != 1:
            raise StoryFailed(f"{self._story.slug}: {resource} has {len(found)} objects, so none can be meant")
        return found[0]
