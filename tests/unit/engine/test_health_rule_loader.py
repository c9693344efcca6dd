"""Users' health rules: read from the operator's own namespace, reloaded when they change, kept while they cannot be
read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

from hearth.engine.health_rule_loader import HealthRuleLoader
from hearth.engine.services import Services
from hearth.engine.work_queue import Broadcast, WorkQueue
from hearth.model import errors, retry_delays
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.health.health_rules import HealthRules, RuleChange
from hearth.plan.retry.backoff import BackoffPolicy
from support.units import waiting
from support.units.blueprints import HASHER

GADGET = Kind(group="example.com", version="v1", name="Gadget", plural="gadgets", namespaced=True)
REF = ObjectRef(group="", kind="ConfigMap", namespace="hearth-system", name="hearth-health-rules")
RULE = "- {kinds: [example.com/Gadget], cases: [{state: ready, reason: Mine}]}"


class Shelf:
    """The part of the port `Home` that rules need."""

    def __init__(self) -> None:
        self.answer: Mapping[str, str] | Exception = errors.ApiStatusError(code=404, status=None)
        self.followed: list[ObjectRef] = []
        self.events: list[str] = []

    def follow_sources(self, stack_uid: str, refs: Collection[ObjectRef]) -> None:
        """As the port says."""
        self.followed = list(refs)

    async def get_source(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """As the port says."""
        assert ref == REF
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def emit_source_event(self, ref: ObjectRef, *, type_: str, reason: str, message: str) -> None:
        """As the port says."""
        self.events.append(f"{type_} {reason} {message}")


class Clock:
    """The part of the port `Clock` that rules need."""

    def __init__(self) -> None:
        self.later: list[Callable[[], Any]] = []

    def call_later(self, delay: float, action: Callable[[], Any]) -> Callable[[], None]:
        """As the port says."""
        assert delay == retry_delays.HEALTH_RULES.first
        self.later.append(action)
        return lambda: self.later.remove(action) if action in self.later else None


class Bench:
    """User rules with a cluster and a clock."""

    def __init__(self, own_namespace: str = "hearth-system") -> None:
        self.shelf, self.clock, self.queue = Shelf(), Clock(), WorkQueue()
        self.services = Services(
            management_cluster=self.shelf,  # type: ignore[arg-type]  # only the parts that the loader uses
            workload_cluster=None,  # type: ignore[arg-type]  # only the parts that the loader uses
            health_marks=None,  # type: ignore[arg-type]  # only the parts that the loader uses
            snapshots=None,  # type: ignore[arg-type]  # only the parts that the loader uses
            plans=None,  # type: ignore[arg-type]
            previews=None,  # type: ignore[arg-type]
            clock=self.clock,  # type: ignore[arg-type]  # only the parts that the loader uses
            hashes=HASHER,
            queue=self.queue,
            backoff=BackoffPolicy(jitter=lambda: 0.5),
            health_rules=HealthRules(),
            own_namespace=own_namespace,
        )
        self.rules = HealthRuleLoader(self.services)

    def assess(self) -> str:
        """The reason of the verdict on a gadget."""
        return self.services.health_rules.assess({"metadata": {}}, kind=GADGET).reason

    async def hear(self, answer: Mapping[str, str] | Exception) -> set[Broadcast]:
        """The notifications after the ConfigMap has changed to this data."""
        self.shelf.answer = answer
        self.rules.on_source_changed(REF)
        await waiting.wait_for_tasks()
        return self.queue.take_broadcasts()


async def test_nothing_is_read_where_the_operator_has_no_namespace() -> None:
    bench = Bench(own_namespace="")
    await bench.rules.start()
    assert bench.shelf.followed == []


async def test_rules_are_there_before_the_first_pass() -> None:
    bench = Bench()
    bench.shelf.answer = {"a": RULE}
    await bench.rules.start()
    assert bench.shelf.followed == [REF]
    assert bench.assess() == "Mine"
    bench.queue.take_broadcasts()
    (change,) = await bench.hear({"a": RULE.replace("Mine", "Yours")})
    assert isinstance(change, RuleChange)
    assert change.touches(GADGET)
    assert bench.assess() == "Yours"
    await bench.hear(errors.ApiStatusError(code=404, status=None))
    assert bench.assess() == "Exists"
    assert bench.shelf.events == []


async def test_what_says_the_same_is_no_change() -> None:
    bench = Bench()
    await bench.hear({"a": RULE})
    assert await bench.hear({"a": RULE}) == set()


async def test_what_cannot_be_read_is_kept_and_tried_again() -> None:
    bench = Bench()
    await bench.hear({"a": RULE})
    for error in (errors.ApiStatusError(code=403, status=None), errors.Unreachable("away")):
        await bench.hear(error)
        assert bench.assess() == "Mine"
        assert len(bench.clock.later) == 1
    bench.shelf.answer = {}
    bench.clock.later[-1]()
    await waiting.wait_for_tasks()
    assert bench.assess() == "Exists"


async def test_mistakes_are_reported_on_the_config_map() -> None:
    bench = Bench()
    wrong = "\n".join(f"- {{kinds: [x/A{number}]}}" for number in range(12))
    await bench.hear({"bad": wrong, "good": RULE})
    assert bench.assess() == "Mine"
    (event,) = bench.shelf.events
    assert event.startswith("Warning InvalidHealthRules invalid rules are ignored, the others apply:\n- bad, line 1: ")
    assert event.endswith("- bad, line 10: cases must be a list of cases, each with a state\nand 2 more")


async def test_many_rules_let_others_work_and_the_latest_apply() -> None:
    bench = Bench()
    many = "\n".join(
        f"- {{kinds: [example.com/Gadget{number}], cases: [{{when: self.status.n == {number}, state: failed}}]}}"
        for number in range(400)
    )
    bench.shelf.answer = {"a": RULE, "many": many}
    starting = asyncio.ensure_future(bench.rules.start())
    turns = 0
    while not starting.done():
        if turns == 3:
            bench.shelf.answer = {"a": RULE.replace("Mine", "Yours")}
            bench.rules.on_source_changed(REF)
        turns += 1
        await asyncio.sleep(0)
    assert turns > 8
    await waiting.wait_for_tasks()
    assert bench.assess() == "Yours"
