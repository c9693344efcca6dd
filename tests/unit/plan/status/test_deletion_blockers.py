"""Causes that hold up a deletion, with names that let a user act."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.model import names
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind
from hearth.model.phases import ConditionType
from hearth.model.tenancy import Boundary
from hearth.plan.retry.backoff import Attempt, RemovalAttempt
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.read_access import Access, Reader
from hearth.plan.status import deletion_blockers
from support.units import blueprints
from support.units.blueprints import World

DENIED = Attempt(
    attempt_id=RemovalAttempt(uid="uid-1"),
    failures=1,
    retry_at=9.0,
    reason="Denied",
    message="cannot delete configmap/shop-a",
    is_final=False,
)

NESTED = Kind(group=names.GROUP, version="v1alpha1", name="Stack", plural="stacks", namespaced=True)
OPEN = Reader(boundary=blueprints.TRUSTED)


def make_nested(conditions: Any, *, name: str = "shop-a", kind: Kind = NESTED) -> Child:
    """A nested Stack in its deletion."""
    metadata = {"name": name, "namespace": "default", "labels": {}, "annotations": {}}
    extra: Object = {"finalizers": [names.FINALIZER], "deletionTimestamp": "2024-01-01T00:00:00Z"}
    return blueprints.make_child(
        {"metadata": metadata}, kind=kind, uid=name, status={"conditions": conditions}, **extra
    )


def blocked_by(message: object, *, status: str = "True") -> list[Object]:
    """Conditions of a Stack; one of them reports the blocker of its deletion."""
    ready = {"type": "Ready", "status": "False", "message": "deleting"}
    return [ready, {"type": ConditionType.DELETION_BLOCKED, "status": status, "message": message}]


@dataclasses.dataclass(frozen=True)
class Rights:
    """The same answer about every object."""

    answer: Access

    def expect(self, kind: Kind, namespace: str, boundary: Boundary) -> None:
        """Nothing to request."""

    def find(self, child: Child, boundary: Boundary) -> Access:
        return self.answer

    def find_at(self, kind: Kind, namespace: str, name: str, boundary: Boundary) -> Access:
        return self.answer


def leaving(**change: object) -> tuple[World, StackPlanner, Child]:
    """A Stack of one object, `a`, that is being deleted."""
    world = World()
    world.settle(blueprints.make_planner(blueprints.make_blueprint({"a": []})))
    child = dataclasses.replace(world.of("a")[0], **change)  # type: ignore[arg-type]  # a table
    world.children["a"] = [child]
    planner = blueprints.make_planner(blueprints.make_blueprint({}))
    world.refresh(planner)
    return world, planner, child


def test_nothing_holds_up_what_only_takes_time() -> None:
    for change in ({}, {"finalizers": ("x/y",)}, {"deleting": True}):
        world, planner, _ = leaving(**change)
        assert deletion_blockers.find_deletion_block(planner, world.memory, beyond="") is None


def test_finalizers_are_named_with_the_object_that_they_hold() -> None:
    world, planner, _ = leaving(deleting=True, finalizers=("x/y", "x/z"))
    found = deletion_blockers.find_deletion_block(planner, world.memory, beyond="")
    assert found is not None
    assert (found.type, found.reason, found.message) == (
        "DeletionBlocked",
        "HeldByFinalizers",
        "configmap/shop-a (held by x/y, x/z)",
    )


def test_a_refused_deletion_comes_first() -> None:
    world, planner, child = leaving()
    world.memory.attempts[child.uid] = DENIED
    found = deletion_blockers.find_deletion_block(planner, world.memory, beyond="waits for probe/x")
    assert found is not None
    assert (found.reason, found.message) == ("Denied", "cannot delete configmap/shop-a")


def test_a_refusal_is_forgotten_once_the_object_goes() -> None:
    world, planner, child = leaving()
    world.memory.attempts[child.uid] = DENIED
    world.children["a"] = [dataclasses.replace(child, deleting=True, resource_version=9)]
    world.refresh(planner)
    assert planner.find_failed_deletions(world.memory) == []


def test_what_only_the_server_knows_is_reported_where_nothing_else_is() -> None:
    planner = blueprints.make_planner(blueprints.make_blueprint({}))
    found = deletion_blockers.find_deletion_block(planner, World().memory, beyond="waits for probe/x")
    assert found is not None
    assert (found.reason, found.message) == ("NotGone", "waits for probe/x")


def test_no_more_are_named_than_a_person_reads() -> None:
    _, _, child = leaving()
    assert deletion_blockers.describe_all([child] * 7).endswith("configmap/shop-a and 2 more")


def test_what_blocks_a_nested_stack_is_named_with_it() -> None:
    child = make_nested(blocked_by("probe/x (held by\n x/y)"))
    assert deletion_blockers.describe_with_cause(child, OPEN) == (
        "stack.hearth.dev/shop-a (held by hearth.dev/children, because probe/x (held by x/y))"
    )


@pytest.mark.parametrize(
    ("conditions", "answer", "kind"),
    [
        pytest.param(blocked_by("secret", status="False"), Access.GRANTED, NESTED, id="blocks no longer"),
        pytest.param(blocked_by(["secret"]), Access.GRANTED, NESTED, id="no text"),
        pytest.param("secret", Access.GRANTED, NESTED, id="no conditions"),
        pytest.param(blocked_by("secret"), Access.DENIED, NESTED, id="not for this account"),
        pytest.param(blocked_by("secret"), Access.UNKNOWN, NESTED, id="perhaps not for this account"),
        pytest.param(blocked_by("secret"), Access.GRANTED, blueprints.GADGET, id="no Stack"),
    ],
)
def test_nothing_else_is_quoted(conditions: Any, answer: Access, kind: Kind) -> None:
    """Only causes are quoted, and only texts that the account of the Stack can read."""
    reader = Reader(boundary=Boundary(namespace="default", is_confined=True, account="deployer"), access=Rights(answer))
    child = make_nested(conditions, kind=kind)
    assert deletion_blockers.describe_with_cause(child, reader) == f"{child.ref} (held by hearth.dev/children)"


def test_stacks_that_quote_each_other_come_to_rest() -> None:
    texts = {"a": "b", "b": "a"}
    rounds = 0
    while True:
        before = dict(texts)
        for name, other in (("a", "b"), ("b", "a")):
            texts[name] = deletion_blockers.describe_with_cause(make_nested(blocked_by(texts[other]), name=other), OPEN)
        rounds += 1
        if texts == before:
            break
    assert rounds < 10
    assert max(map(len, texts.values())) < deletion_blockers.QUOTED_LENGTH + 100


def test_messages_do_not_follow_the_order_of_the_cache() -> None:
    children = [make_nested([], name=f"shop-{letter}") for letter in "gfedcba"]
    assert deletion_blockers.describe_all(children).startswith("stack.hearth.dev/shop-a ")
    assert [each.name for each in deletion_blockers.find_first(children)] == [f"shop-{letter}" for letter in "abcde"]


NAMESPACE = Kind(group="", version="v1", name="Namespace", plural="namespaces", namespaced=False)
REMAINING = {"type": "NamespaceContentRemaining", "status": "True", "message": "Some resources are remaining: pods."}
HELD = {"type": "NamespaceFinalizersRemaining", "status": "True", "message": "finalizers remaining: example.org/hold"}
AWAY = {"type": "NamespaceDeletionDiscoveryFailure", "status": "True", "message": "dead.example.org/v1: stale"}


def make_namespace(*conditions: dict[str, str]) -> Child:
    metadata = {"name": "prod", "labels": {}, "annotations": {}, "deletionTimestamp": "2024-01-01T00:00:00Z"}
    return blueprints.make_child(
        {"metadata": metadata}, kind=NAMESPACE, uid="n", status={"conditions": list(conditions)}
    )


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((), ""),
        ((REMAINING,), ""),
        ((HELD | {"status": "False"},), ""),
        ((REMAINING, HELD), "Some resources are remaining: pods; finalizers remaining: example.org/hold"),
        ((AWAY,), "dead.example.org/v1: stale"),
    ],
)
def test_a_namespace_says_itself_what_holds_it(conditions: tuple[dict[str, str], ...], expected: str) -> None:
    child = make_namespace(*conditions)

    assert deletion_blockers.is_held(child, OPEN) == bool(expected)
    named = deletion_blockers.describe_with_cause(child, OPEN)
    assert named == (f"{child.ref} ({expected})" if expected else str(child.ref))
    boundary = Boundary(namespace="default", is_confined=True, account="weak")
    stranger = Reader(boundary=boundary, access=Rights(Access.DENIED))
    assert deletion_blockers.describe_with_cause(child, stranger) == str(child.ref)
