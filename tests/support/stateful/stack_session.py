"""One Stack in a fake world that is frozen between two calls, with a user that acts at any moment.

Updates the model along with the world and compares both at rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import yaml

from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support import virtual_time
from support.checks import expectations, invariants, members
from support.fake_world import crash_injection, fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds, request_faults
from support.stateful import adversary_costs, hostile_tenant, model_comparison, random_templates, target_model
from support.stateful.fake_adversary import FakeAdversary
from support.stateful.hostile_tenant import Deed, Mallory
from support.stateful.session_state import Harassed, Ordered, Since
from support.stateful.target_model import Circumstances, Mind
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address

Result = TypeVar("Result")

PATIENCE = 900.0
"""Maximum virtual seconds until everything must be healthy: three times the longest backoff."""
LONG = 700.0
"""Virtual seconds within which any repeated action would occur: twice the longest backoff."""
MOST_FAULTS = 3
"""Maximum refusals between two rests. With more, a resource might use up its attempts."""

ALTERED = {"Probe": ("spec", "other"), "ConfigMap": ("data", "v")}
"""The field of an object that a user changes, by kind."""
HARMS_CLAIMS = frozenset({"delete", "strip", "relabel", "hold", "collect", "mutate", "deny", "late"})
"""Adversaries' actions on objects with unknown fields."""
GRANTED = 3
"""Factor for the allowed requests if a right is repeatedly granted and denied, because each grant justifies a retry."""
MOST_MINDS = 200
"""Maximum number of possible states in the model. With more, it would be slow and prove too little."""


class Disagreement(AssertionError):
    """The world differs from the model, or an invariant was violated."""


class Session:
    """The world, the model, and the actions so far."""

    def __init__(self, *, delay: float | None, is_attacked: bool = False) -> None:
        """delay: seconds that events travel; None: the default. is_attacked: whether there is also a hostile tenant."""
        self._closing = contextlib.ExitStack()
        self.mistakes = self._closing.enter_context(fake_world.diary())
        self._loop = virtual_time.VirtualLoop()
        asyncio.set_event_loop(self._loop)
        self._closing.callback(self._close_loop)
        self.reported: list[Object] = []
        """The actions so far, as the steps of a story."""
        self.ordered = Ordered(drafts={})
        self._tokens = 0
        self.is_deleting = False
        self.minds: set[Mind] = {Mind()}
        self.since = Since()
        self.is_restarted = False
        """Whether the operator crashed since the Stack was last complete."""
        self.uid = ""
        self.mallory: Mallory | None = None
        self.harassed: Harassed | None = None
        self.is_stripped = False
        """Whether an adversary removed annotations."""
        self.run(self._begin(delay, is_attacked=is_attacked))

    async def _begin(self, delay: float | None, *, is_attacked: bool) -> None:
        self.world = FakeWorld(is_shared=is_attacked)
        if is_attacked:
            self.mallory = Mallory(self.world.server)
            self.mallory.settle()
        self.world.server.watchers.append(self._bind)
        self.world.event_delay = delay
        await self.world.start_controller()

    def _bind(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Simulate a provisioner that binds claims."""
        if (
            kind.name != random_templates.CLAIM
            or after is None
            or "status" in after
            or "deletionTimestamp" in after["metadata"]
        ):
            return
        self._loop.call_later(0.01, self._bind_now, after, context=contextvars.Context())

    def _bind_now(self, raw: Object) -> None:
        metadata = raw["metadata"]
        server, kind = self.world.server, self.world.server.find_kind(raw)
        live = server.find(kind, metadata["namespace"], metadata["name"])
        if live is not None and live["metadata"]["uid"] == metadata["uid"]:
            server.patch_status(kind, metadata["namespace"], metadata["name"], {"phase": "Bound"}, manager="binder")

    def _close_loop(self) -> None:
        virtual_time.cancel_all(self._loop)
        asyncio.set_event_loop(None)
        self._loop.close()

    def close(self) -> None:
        """End everything."""
        self._closing.close()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run the world until this is done."""
        return self._loop.run_until_complete(coroutine)

    # ------------------------------------------------------------ the user

    def tell(self, **step: Any) -> None:
        """Record a step, in the words of stories if they have one for it."""
        self.reported.append(step)

    def find_stack(self) -> Object | None:
        found = self.world.server.find(fake_kinds.STACK.kind, STACK.namespace, STACK.name)
        return found if found is not None and found["metadata"]["uid"] == self.uid else None

    def children(self) -> list[Object]:
        """Every object of the Stack, by name."""
        found = [
            raw
            for kind, raw in self.world.server.everything()
            if kind != fake_kinds.CONTROLLER_REVISION.kind and invariants.whose(raw)[0] == self.uid != ""
            if not hostile_tenant.is_hostile(raw)
        ]
        return sorted(found, key=lambda raw: str(raw["metadata"]["name"]))

    def revisions(self) -> dict[int, str]:
        """The stored definitions by number."""
        return {
            int(raw["metadata"]["annotations"][names.ANNOTATION_REVISION]): model_comparison.key_of(
                raw["data"]["template"]
            )
            for raw in self.world.server.list_all(fake_kinds.CONTROLLER_REVISION.kind)
            if raw["metadata"]["labels"][names.LABEL_STACK_UID] == self.uid and not hostile_tenant.is_hostile(raw)
        }

    def create(self, ordered: Ordered) -> None:
        """Create the Stack."""
        self.ordered, self.is_deleting, self.minds, self.since = ordered, False, {Mind()}, Since()
        self.is_restarted = False
        spec = ordered.make_spec()
        self.tell(apply=spec)
        self.uid = self.run(self.world.user.create(stack_manifests.make_stack(spec)))["metadata"]["uid"]

    def say(self) -> None:
        """Replace the spec with the current target."""
        self.minds = target_model.spread(self.minds, self.circumstances())
        if len(self.minds) > MOST_MINDS:
            self.rest()
            if self.find_stack() is None:
                # Its deletion has completed in the meantime.
                return
        self.since.edits += 1
        spec = self.ordered.make_spec()
        self.tell(apply=spec)
        self.run(self.world.user.replace_spec(STACK, spec))

    def annotate(self, verb: str) -> None:
        """Make a request by an annotation."""
        self.since.others += 1
        self.since.is_retried |= verb == names.REQUEST_RETRY
        self._tokens += 1
        annotations = {verb: str(self._tokens)}
        self.tell(annotate=annotations)
        self.run(self.world.user.patch(STACK, {"metadata": {"annotations": annotations}}))

    def delete(self) -> None:
        self.is_deleting = True
        self.tell(**{"delete-stack": None})
        self.run(self.world.user.delete(STACK))

    def find_targets(self) -> list[Object]:
        """The objects that a user changes or deletes."""
        return self.children()

    def find_child(self, number: int) -> Object | None:
        """Any child that is not being deleted."""
        found = [raw for raw in self.find_targets() if "deletionTimestamp" not in raw["metadata"]]
        return found[number % len(found)] if found else None

    def tamper(self, number: int, value: int) -> None:
        """Change a child behind the operator's back."""
        found = self.find_child(number)
        if found is None or found["kind"] not in ALTERED:
            return
        self.since.others += 1
        patch = {ALTERED[found["kind"]][0]: {ALTERED[found["kind"]][1]: f"x{value}"}}
        self.tell(tamper={"object": found["metadata"]["name"], "set": patch})
        self.run(self.world.user.patch(Address.of(found), patch))

    def delete_child(self, number: int) -> None:
        """Delete one behind its back."""
        found = self.find_child(number)
        if found is None:
            return
        self.since.others += 1
        self.tell(**{"delete-object": found["metadata"]["name"]})
        self.run(self.world.user.delete(Address.of(found)))

    def crash(self, delay: float | None) -> None:
        """Kill the operator, and start another."""
        self.is_restarted = True
        self.since.others += 1
        self.tell(**{"restart-controller": delay})
        self.world.event_delay = delay
        self.run(self._restart())

    async def _restart(self) -> None:
        await self.world.kill_controller()
        await self.world.start_controller()

    def disturb(self, writes: int, how: str) -> None:
        """Let something happen at one of the next writes."""
        self.since.others += 1
        self.is_restarted |= how in crash_injection.KILLS
        self.tell(disturb=f"{how} at write {writes} from now")
        planned = request_faults.Interruption(write=self.world.traffic.writes + writes, how=how)
        self.world.traffic.interruption = planned

    def refuse(self, word: str, times: int) -> None:
        """Let the next writes of children be refused."""
        if self.since.faults + times > MOST_FAULTS:
            return
        self.since.others += 1
        self.since.faults += times
        self.tell(fail={"with": word, "times": times})
        self.world.traffic.troubles.append(request_faults.Trouble(refusal=request_faults.REFUSALS[word], times=times))

    def attack(self, deed: Deed) -> None:
        """Let the hostile tenant act."""
        self.tell(attack=[deed.act, deed.number, deed.other])
        self.run(self._attack(deed))

    async def _attack(self, deed: Deed) -> None:
        assert self.mallory is not None
        self.mallory.do(deed)

    def wait(self, seconds: float) -> None:
        """Let a little time pass."""
        self.tell(wait=seconds)
        self.run(asyncio.sleep(seconds))

    # ------------------------------------------------------------ adversaries

    def harass(self, number: int, deed: str) -> None:
        """Let an adversary act on one child from now on, until it has to stop."""
        self.relent()
        found = self.find_child(number)
        if found is None or found["kind"] not in (*ALTERED, random_templates.CLAIM):
            return
        deeds = [deed] if found["kind"] in ALTERED or deed in HARMS_CLAIMS else ["delete"]
        name = found["metadata"]["name"]
        self.since.others += 1
        self.since.is_harassed = True
        self.is_stripped |= deeds[0] == "strip"
        self.tell(harass={"object": name, "with": deeds[0]})
        adversary = FakeAdversary(self.world, deeds, kinds=[found["kind"]], name=name, key=ALTERED["ConfigMap"][1])
        self.run(self._call(adversary.start))
        self.harassed = Harassed(
            adversary=adversary,
            deed=deeds[0],
            begun=self._loop.time(),
            requests=len(self.world.traffic.requests),
            changes=self.since.edits + self.since.others,
        )

    def relent(self) -> None:
        """End the adversary, and check that the cost of each object was bounded."""
        harassed, self.harassed = self.harassed, None
        if harassed is None:
            return
        self.tell(relent=harassed.deed)
        seconds = self._loop.time() - harassed.begun
        sent = self.world.traffic.requests[harassed.requests :]
        beginnings = 1 + self.since.edits + self.since.others - harassed.changes
        beginnings *= GRANTED if harassed.deed == "deny" else 1
        self.run(harassed.adversary.stop())
        if excess := adversary_costs.find_excess(sent, seconds, beginnings=beginnings):
            self.fail([f"{harassed.deed}, for {seconds:g} s, cost more than it may: {excess}"])

    async def _call(self, function: Callable[[], None]) -> None:
        function()

    # ------------------------------------------------------------ judging

    def circumstances(self) -> Circumstances:
        """The inputs of the model."""
        stack = self.find_stack()
        spec = stack["spec"] if stack is not None else {"template": {}}
        rollback = spec.get("rollback") or {}
        asked = target_model.Asked(
            definition=model_comparison.key_of(spec["template"]),
            to_revision=rollback.get("toRevision"),
            on_failure=bool(rollback.get("onFailure")),
            is_mistaken=members.MISTAKEN in spec["template"].get("resources", {}),
        )
        return Circumstances(
            asked=asked,
            revisions=self.revisions(),
            may_fail=(lambda _key: True) if self.since.is_harassed else model_comparison.may_fail,
            must_fail=model_comparison.must_fail,
            is_retried=self.since.is_retried,
            is_paused=bool(spec.get("paused")),
        )

    def check_always(self) -> None:
        """Check that no invariant was violated."""
        wrong = [*self._find_mistakes(), *self.world.witness.wrong, *self.world.oversight.wrong]
        if wrong:
            self.fail(wrong)

    def _find_mistakes(self) -> list[str]:
        """The errors that the operator logged, except those about the hostile tenant."""
        if self.mallory is None:
            return self.mistakes
        marks = (*self.mallory.uids, hostile_tenant.NAMESPACE)
        return [reported for reported in self.mistakes if not any(mark in reported for mark in marks)]

    def fail(self, wrong: list[str]) -> None:
        """Fail with the difference and the actions so far. Raises Disagreement."""
        status = expectations.status_of(self.find_stack())
        ready = expectations.find_condition(self.find_stack(), "Ready")
        seen = [f"{raw['metadata']['name']}: {raw.get('spec', raw.get('data'))}" for raw in self.children()]
        said = f"status: {status.get('phase')} {ready.get('reason')}: {ready.get('message')}; {status.get('target')}"
        steps = yaml.safe_dump(self.reported, sort_keys=False, default_flow_style=None, width=160)
        apart = [str(each) for each in self.world.traffic.requests_apart[-10:]]
        events = [str(each) for each in self.world.traffic.events[-3:]]
        raise Disagreement("\n".join([*wrong, said, *seen, *events, *apart, steps]))

    def rest(self) -> None:
        """Wait until the world is at rest, then compare it with the model."""
        self.relent()
        self.tell(rest=None)
        try:
            wrong = self.run(self.world.wait_rest(self._compare, patience=PATIENCE))
        except fake_world.NeverRests as error:
            wrong = [str(error)]
        self.check_always()
        if wrong:
            self.fail(wrong)
        self._check_costs()
        self._delete_unproven()
        self._check_silence()
        self._conclude()
        self.check_always()

    async def _compare(self) -> list[str]:
        """The differences from the model."""
        stack, unproven = self.find_stack(), {raw["metadata"]["uid"] for raw in self.find_unproven()}
        found = [raw for raw in self.children() if raw["metadata"]["uid"] not in unproven]
        if self.mallory is not None and (unnamed := self.mallory.find_unnamed()):
            return unnamed
        if self.is_deleting:
            return model_comparison.find_left(stack, found, self.revisions())
        if stack is None:
            return ["the Stack is gone, and it was not deleted by a user"] if self.uid else []
        possible = target_model.rest(self.minds, self.circumstances())
        return model_comparison.find_wrong(stack, found, possible, self.revisions(), is_restarted=self.is_restarted)

    def find_unproven(self) -> list[Object]:
        """The objects whose signature an adversary removed, so that the operator only reports them in an Event."""
        reported = [message for _, _, reason, message in self.world.traffic.events if reason == "UnprovenObjects"]
        return [
            raw
            for raw in (self.children() if self.is_stripped else ())
            if names.ANNOTATION_SIGNATURE not in invariants.annotations_of(raw)
            and any(f"/{raw['metadata']['name']} " in f"{message} " for message in reported)
        ]

    def _delete_unproven(self) -> None:
        """Follow the advice in that Event."""
        for raw in self.find_unproven():
            self.tell(**{"delete-object": raw["metadata"]["name"]})
            self.run(self.world.user.delete(Address.of(raw)))

    def _check_costs(self) -> None:
        """Check that a single edit costs one apply per resource."""
        since, stack = self.since, self.find_stack()
        is_whole = str(expectations.status_of(stack).get("phase")).endswith("Complete")
        if self.is_deleting or not (since.is_clean and is_whole and since.edits <= 1 and not since.others):
            return
        sent = self._drop_others(self.world.traffic.requests[since.requests :])
        applied = Counter(each.resource for each in sent if each.verb == "apply" and each.stack == self.uid)
        target = expectations.status_of(stack)["target"]
        most = model_comparison.count_most_applies(self.revisions(), target["cause"])
        wrong = [
            f"{name} was applied {count} times for one edit" for name, count in applied.items() if count > most(name)
        ]
        if not since.edits and sent:
            wrong.append(f"nothing was asked for, and these were sent: {[str(each) for each in sent]}")
        if wrong:
            self.fail(wrong)

    def _drop_others(self, requests: list[request_faults.Request]) -> list[request_faults.Request]:
        """Remove requests that the hostile tenant causes: lists of all namespaces, and an Event for each forgery."""
        if self.mallory is None:
            return requests
        events = self.world.traffic.events[self.since.events :]
        reported = sum((name, reason) == (STACK.name, "UnprovenObjects") for name, _, reason, _ in events)
        kept = []
        for each in requests:
            if (each.verb, each.name) == ("event", STACK.name) and reported:
                reported -= 1
            elif each.verb != "list" or each.namespace:
                kept.append(each)
        return kept

    def _check_silence(self) -> None:
        """Check that no more requests are sent, even without a leader for a long time, or by another operator."""
        stack = self.find_stack()
        if self.world.traffic.troubles or stack is None:
            return
        # Reports about undone writes last twice the longest delay.
        self.run(asyncio.sleep(LONG * 2 if self.since.is_harassed else LONG))
        sent = len(self.world.traffic.requests)
        self.run(asyncio.sleep(LONG))
        later = self.world.traffic.requests[sent:]
        if self.is_deleting:
            # During a blocked deletion, the operator checks at intervals whether the whole namespace is being deleted.
            later = [each for each in later if (each.verb, each.kind) != ("get", fake_kinds.NAMESPACE.kind)]
        if later:
            self.fail([f"at rest, and these were sent: {[str(each) for each in later[:10]]}"])

    def _conclude(self) -> None:
        """Determine the revision that the Stack follows now."""
        stack = self.find_stack()
        is_clean = False
        if stack is None:
            self.uid = ""
        elif not self.is_deleting:
            possible = target_model.rest(self.minds, self.circumstances())
            self.minds = model_comparison.choose(stack, possible, self.revisions())
            is_clean = str(stack["status"]["phase"]).endswith("Complete")
            self.is_restarted &= not is_clean
        self.world.traffic.troubles.clear()
        self.world.traffic.interruption = None
        self.since = Since(
            is_clean=is_clean, requests=len(self.world.traffic.requests), events=len(self.world.traffic.events)
        )
