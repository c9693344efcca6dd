"""Unexpected exceptions anywhere: they are reported in the status and retried, and do not affect other Stacks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.engine.definition.stack_revisions import StackRevisions
from hearth.engine.health_marks import mark_index
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.engine.writes.step_execution import StepExecutor
from hearth.model.child import Object
from hearth.model.phases import ConditionType
from hearth.plan.health.health_rules import RuleChange
from hearth.plan.resource import step_planning
from hearth.plan.resource.resource_planner import ResourcePlanner
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.stack.suspend_planner import SuspendPlanner
from hearth.plan.state import internal_errors
from hearth.plan.status import conditions, status_builder
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.ports.fake_management_cluster import FakeManagementCluster
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address

SECRET = "tagsecret99"
NAMESPACE = "default"
OTHER = dataclasses.replace(STACK, name="other")
GOOD = Address(api_version="v1", kind="ConfigMap", namespace=NAMESPACE, name="shop-good")
RULES = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "hearth-health-rules", "namespace": NAMESPACE},
    "data": {"rules.yaml": "- {group: play.hearth.dev, kind: Probe, conditions: {ready: [Up]}}"},
}


def make_stack(address: Address) -> Object:
    """Two independent ConfigMaps, and an output."""
    resources = {
        name: {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "1"}}} for name in ("bad", "good")
    }
    return stack_manifests.make_stack(
        {"template": {"resources": resources, "outputs": {"v": {"value": "${bad.data.v}"}}}}, name=address.name
    )


@dataclass
class Fault:
    """Raises an unexpected error until it is switched off."""

    is_over: bool = False
    count: int = 0

    def put(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, is_meant: Callable[..., bool]) -> None:
        """Inject the error into a function, for calls with these arguments."""
        real = getattr(owner, name)

        def broken(*args: Any, **kwargs: Any) -> Any:
            if not self.is_over and is_meant(*args, **kwargs):
                self.count += 1
                raise ValueError(f"cannot read {SECRET}")
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, broken)


LONGEST_PAUSE = 60.0
"""Virtual seconds within which the next attempt occurs."""


@dataclass
class Reported:
    """The internal errors that a Stack reported, in order."""

    problems: set[str] = field(default_factory=set)
    """Names of resources with problems."""
    messages: set[str] = field(default_factory=set)
    """Messages of `Ready`."""
    conditions: set[str] = field(default_factory=set)
    """Statuses of the condition for internal errors."""

    def on_change(self, _kind: object, _before: Object | None, after: Object | None) -> None:
        """The server's watcher."""
        if after is None or (after["kind"], after["metadata"]["name"]) != (STACK.kind, STACK.name):
            return
        status = after.get("status") or {}
        reason = internal_errors.REASON
        self.problems |= {each["resource"] for each in status.get("problems") or () if each["reason"] == reason}
        for each in status.get("conditions") or ():
            if each["type"] == "Ready" and each["reason"] == reason:
                self.messages.add(each["message"])
            if each["type"] == ConditionType.INTERNAL_ERROR:
                self.conditions.add(each["status"])


def play(fault: Fault) -> tuple[Reported, dict[str, Object], list[str]]:
    """Run both Stacks until they finish: the reports of the first, the final statuses, and the log."""
    reported, ends = Reported(), {}

    async def test(world: FakeWorld) -> None:
        world.server.watchers.append(reported.on_change)
        await world.start_controller()
        await world.user.create(make_stack(STACK))
        await world.user.create(make_stack(OTHER))
        await world.user.create(RULES)
        await world.wait(20)
        ends["other meanwhile"] = (await world.user.find(OTHER) or {})["status"]
        # Until here, it fails every time; from here on, it never fails.
        fault.is_over = True
        await world.wait(LONGEST_PAUSE)
        await world.wait_rest()
        for address in (STACK, OTHER):
            ends[address.name] = (await world.user.find(address) or {}).get("status", {})

    mistakes = fake_world.find_mistakes(test)
    return reported, ends, mistakes


def is_bad(step: Any, **_: Any) -> bool:
    """Whether a step is about that resource."""
    return bool(step.ref.name.startswith("shop-bad"))


def is_shop(stack: Any) -> bool:
    return bool(stack.name == STACK.name)


PLACES: dict[str, tuple[Any, str, Callable[..., bool]]] = {
    "a step": (StepExecutor, "execute_step", lambda _self, step: is_bad(step)),
    "what comes of a step": (StackReconciler, "finish_step", lambda _self, _key, step, _result: is_bad(step)),
    "the judgement of a resource": (
        ResourcePlanner,
        "_assess",
        lambda self, resource, *_, **__: resource.name == "bad" and self._stack.name == STACK.name,
    ),
    "a pass": (StackPlanner, "plan", lambda self, *_, **__: self._planner._stack.name == STACK.name),
    "accepting": (RevisionBuilder, "compile", lambda _self, _definition, stack, **_: is_shop(stack)),
    "building a status": (
        status_builder,
        "build_status",
        lambda subject, planner, **_: planner is not None and planner._planner._stack.name == STACK.name,
    ),
    "writing a status": (
        FakeManagementCluster,
        "write_status",
        lambda _self, stack, patch: is_shop(stack) and "outputs" in patch,
    ),
    "an event for all Stacks": (
        StackReconciler,
        "on_broadcast",
        lambda self, what: (
            isinstance(what, RuleChange) and is_shop(self._services.management_cluster.find_stack(self.uid))
        ),
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_error_is_reported_and_ends_nothing_else(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault()
    fault.put(monkeypatch, *PLACES[place])
    reported, ends, logged = play(fault)
    # It was retried with growing delays.
    assert 1 <= fault.count < 30
    assert ends["other meanwhile"]["phase"] == "CreateComplete"
    assert reported.problems or reported.messages
    assert not reported.problems - {"bad"}
    assert (ends["shop"]["phase"], ends["shop"]["problems"]) == ("CreateComplete", [])
    assert ends["shop"]["outputs"] == {"v": "1"}
    assert logged
    assert not any(SECRET in each for each in (*logged, *reported.messages))


DELETED = "the deletion of an object"
SUSPENDED = "the suspension of an object"
LATER: dict[str, tuple[Any, str, Callable[..., bool]]] = {
    DELETED: (step_planning, "plan_removal", lambda child, *_: child.resource == "bad"),
    SUSPENDED: (SuspendPlanner, "_view", lambda _self, name, *_: name == "bad"),
}


@pytest.mark.parametrize("place", LATER)
def test_error_about_one_object_holds_up_no_other(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault(is_over=True)
    fault.put(monkeypatch, *LATER[place])
    reported, ends = end_stack(place, fault)
    assert 1 < fault.count < 30
    assert "bad" in reported.problems
    assert (ends["good meanwhile"] is None) == (place == DELETED)
    status = (ends["Stack meanwhile"] or {})["status"]
    if place == DELETED:
        blocked = conditions.find(status, "DeletionBlocked")
        assert (blocked["status"], blocked["reason"]) == ("True", "InternalError")
        assert ends["Stack"] is None
    else:
        assert status["phase"] == "SuspendFailed"
        assert (ends["Stack"] or {})["status"]["phase"] == "SuspendComplete"


def end_stack(place: str, fault: Fault) -> tuple[Reported, dict[str, Object | None]]:
    """Delete or suspend a Stack during an error: its messages, its objects then, and its objects at the end."""
    reported = Reported()
    ends: dict[str, Object | None] = {}

    async def test(world: FakeWorld) -> None:
        world.server.watchers.append(reported.on_change)
        await world.start_controller()
        await world.user.create(make_stack(STACK))
        await world.wait_rest()
        fault.is_over = False
        if place == DELETED:
            await world.user.delete(STACK)
        else:
            await world.user.patch(STACK, {"spec": {"suspended": True}})
        await world.wait(20)
        ends["good meanwhile"] = await world.user.find(GOOD)
        ends["Stack meanwhile"] = await world.user.find(STACK)
        fault.is_over = True
        await world.wait_rest()
        ends["Stack"] = await world.user.find(STACK)

    assert fake_world.find_mistakes(test)
    return reported, ends


def test_error_in_other_work_is_a_condition_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fault, reported = Fault(), Reported()
    fault.put(
        monkeypatch,
        StackRevisions,
        "truncate",
        lambda self, **_: is_shop(self.services.management_cluster.find_stack(self.uid)),
    )
    monkeypatch.setattr(DefinitionSync, "_process", look_without_trimming(DefinitionSync._process))
    phases: list[str] = []

    async def test(world: FakeWorld) -> None:
        world.server.watchers.append(reported.on_change)
        await world.start_controller()
        await world.user.create(make_stack(STACK))
        await world.wait(10)
        phases.append((await world.user.find(STACK) or {})["status"]["phase"])
        fault.is_over = True
        await world.wait_rest()

    assert fake_world.find_mistakes(test)
    assert (phases, reported.problems, reported.messages) == (["CreateComplete"], set(), set())
    assert reported.conditions == {"True", "False"}


def look_without_trimming(real: Callable[..., Any]) -> Callable[..., Any]:
    """Accepts definitions; old revisions are left to their own task."""

    async def look(self: DefinitionSync, *args: Any, **kwargs: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StackRevisions, "truncate", nothing_of_a_stack)
            await real(self, *args, **kwargs)

    return look


async def nothing_of_a_stack(_self: StackRevisions, *, limit: int) -> None:
    """Nothing."""


def test_bad_health_mark_keeps_no_other_from_being_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault()
    fault.put(monkeypatch, mark_index, "parse_mark", lambda mark: mark.name == "bad")
    ends: dict[str, Object] = {}

    async def test(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(make_stack(STACK))
        for name in ("bad", "good"):
            await world.user.create(make_mark(name))
        await world.wait(20)
        ends["good"] = (await world.user.find(mark_address("good")) or {}).get("status", {})
        fault.is_over = True
        await world.wait_rest()
        ends["bad"] = (await world.user.find(mark_address("bad")) or {}).get("status", {})

    assert fake_world.find_mistakes(test)
    assert 1 < fault.count < 30
    assert ends["good"]
    assert ends["bad"]


def mark_address(name: str) -> Address:
    return Address(api_version=STACK.api_version, kind="HealthMark", namespace=NAMESPACE, name=name)


def make_mark(name: str) -> Object:
    """A HealthMark on the resource of the same name."""
    address = mark_address(name)
    return {
        "apiVersion": address.api_version,
        "kind": address.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"stackName": STACK.name, "resource": name, "markUnhealthy": True, "reason": "broken"},
    }
