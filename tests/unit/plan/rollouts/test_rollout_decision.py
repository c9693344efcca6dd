"""Tables of cases of the decision about a rollout, and whole rollouts with instances that follow at once, late or never."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth.plan.rollouts import rollout_decision, rollout_policy, rollout_report
from hearth.plan.rollouts.rollout_decision import (
    Health,
    InstanceState,
    RolloutDecision,
    RolloutPhase,
    RolloutRecord,
    RolloutRequests,
)
from hearth.plan.rollouts.rollout_policy import RolloutPolicy

CANARY = {"waves": [{"name": "canary", "select": {"matchLabels": {"tier": "canary"}}}], "maxUnavailable": 1}
Follow = Callable[[InstanceState], Health]


def make(index: int, *, revision: int = 1, **options: object) -> InstanceState:
    fields: dict[str, object] = {"health": Health.WELL, "labels": {"tier": "canary"} if index == 0 else {}, **options}
    return InstanceState(uid=f"u{index}", namespace="n", name=f"i{index:03}", revision=revision, **fields)  # type: ignore[arg-type]


class Cluster:
    """Instances that take what they are given."""

    def __init__(self, instances: list[InstanceState], stated: dict[str, object]) -> None:
        self.instances = {each.uid: each for each in instances}
        self.policy = rollout_policy.parse(stated)
        self.record = RolloutRecord(revision=1, completed=1, phase=RolloutPhase.COMPLETE)
        self.now = 0.0
        self.order: list[list[str]] = []

    def step(self, newest: int, follow: Follow, requests: RolloutRequests = RolloutRequests()) -> RolloutDecision:
        """Decide once, and let those that are moved follow."""
        found = rollout_decision.decide(
            self.policy,
            self.instances.values(),
            newest=newest,
            known=range(1, newest + 1),
            before=self.record,
            requests=requests,
            now=self.now,
        )
        # A restart in between changes nothing.
        reported = {key: value for key, value in rollout_report.encode(found).items() if value is not None}
        assert rollout_report.decode({"rollout": reported}, self.policy) == found.record
        self.record = found.record
        if found.moves:
            self.order.append(sorted(found.moves))
        for uid, number in found.moves.items():
            moved = {**vars_of(self.instances[uid]), "revision": number, "health": Health.WORKING}
            self.instances[uid] = InstanceState(**moved)  # type: ignore[arg-type]
        for uid, each in self.instances.items():
            if each.health is Health.WORKING:
                self.instances[uid] = InstanceState(**{**vars_of(each), "health": follow(each)})  # type: ignore[arg-type]
        return found

    def run(self, newest: int, follow: Follow = lambda _: Health.WELL) -> RolloutDecision:
        """Go on until nothing moves any more."""
        for _ in range(500):
            found = self.step(newest, follow)
            if found.is_settled:
                return found
            self.now += min(found.due, 60.0)
        raise AssertionError("it does not end")


def vars_of(instance: InstanceState) -> dict[str, object]:
    return {name: getattr(instance, name) for name in InstanceState.__dataclass_fields__}


def test_waves_follow_one_another_and_keep_to_the_limit() -> None:
    cluster = Cluster([make(index) for index in range(5)], {**CANARY, "maxUnavailable": 2})

    found = cluster.run(2)

    assert cluster.order == [["u0"], ["u1", "u2"], ["u3", "u4"]]
    assert (found.record.phase, found.record.completed, found.updated, found.ready) == (RolloutPhase.COMPLETE, 2, 5, 5)


def test_a_failure_in_the_first_wave_leaves_all_others_alone() -> None:
    cluster = Cluster([make(index) for index in range(200)], CANARY)

    found = cluster.run(2, lambda _: Health.FAILED)

    assert (found.record.phase, [each.uid for each in found.failed]) == (RolloutPhase.STOPPED, ["u0"])
    assert [each.revision for each in cluster.instances.values()].count(1) == 199
    assert rollout_report.explain(found)[0] == "RolloutStopped"


def test_what_failed_goes_back_where_the_definition_says_so() -> None:
    stated = {"waves": [{"name": "few", "size": "10%"}], "maxUnavailable": 5, "onFailure": "Rollback"}
    cluster = Cluster([make(index) for index in range(50)], stated)

    found = cluster.run(2, lambda each: Health.FAILED if each.revision == 2 and each.uid == "u3" else Health.WELL)

    assert found.record.phase is RolloutPhase.ROLLED_BACK
    assert {each.revision for each in cluster.instances.values()} == {1}
    # A corrected definition begins again.
    assert cluster.run(3).record.completed == 3


def test_one_that_rolled_back_by_itself_failed_and_is_well_for_the_next_revision() -> None:
    cluster = Cluster([make(index) for index in range(3)], CANARY)
    assert cluster.run(2, lambda _: Health.ROLLED_BACK).record.phase is RolloutPhase.STOPPED

    assert cluster.run(3).record.completed == 3


def test_unwell_instances_follow_last_and_count_for_nothing() -> None:
    cluster = Cluster([make(0, health=Health.FAILED), make(1), make(2)], CANARY)

    found = cluster.run(2, lambda each: Health.FAILED if each.uid == "u0" else Health.WELL)

    assert cluster.order[-1] == ["u0"]
    assert found.record.phase is RolloutPhase.COMPLETE


@pytest.mark.parametrize("options", [{"is_held": True}, {"pin": 1}], ids=["held", "pinned"])
def test_held_instances_stay_and_follow_when_they_are_released(options: dict[str, Any]) -> None:
    cluster = Cluster([make(0), make(1, **options)], CANARY)

    found = cluster.run(2)

    assert found.record.phase is RolloutPhase.COMPLETE
    assert cluster.instances["u1"].revision == 1
    cluster.instances["u1"] = make(1)
    cluster.run(2)
    assert cluster.instances["u1"].revision == 2


def test_a_pin_moves_an_instance_alone() -> None:
    cluster = Cluster([make(0), make(1, revision=2, pin=1)], {"strategy": "Manual"})

    cluster.step(2, lambda _: Health.WELL)

    assert {each.revision for each in cluster.instances.values()} == {1}


def test_manual_moves_what_is_promoted() -> None:
    cluster = Cluster([make(0, promoted=2), make(1, promoted=1), make(2)], {"strategy": "Manual"})

    cluster.step(2, lambda _: Health.WELL)

    assert cluster.order == [["u0"]]


def test_all_at_once_asks_for_no_waves() -> None:
    cluster = Cluster([make(index) for index in range(9)], {**CANARY, "strategy": "AllAtOnce"})

    cluster.run(2)

    assert [len(each) for each in cluster.order] == [9]


def test_the_next_wave_waits_until_all_were_ready_for_the_pause() -> None:
    cluster = Cluster([make(0), make(1)], {**CANARY, "pause": "10m"})
    cluster.step(2, lambda _: Health.WELL)
    assert cluster.step(2, lambda _: Health.WELL).due == 600.0
    cluster.now = 500.0
    cluster.instances["u0"] = make(0, revision=2, health=Health.WORKING)
    cluster.step(2, lambda _: Health.WELL)
    cluster.now = 700.0
    assert cluster.step(2, lambda _: Health.WELL).due == 600.0
    cluster.now = 1300.0

    cluster.step(2, lambda _: Health.WELL)

    assert cluster.order == [["u0"], ["u1"]]


def test_a_promoted_wave_does_not_wait() -> None:
    cluster = Cluster([make(0), make(1)], {**CANARY, "pause": "10m"})
    cluster.step(2, lambda _: Health.WELL)

    cluster.step(2, lambda _: Health.WELL, RolloutRequests(promote="2/canary"))

    assert cluster.order == [["u0"], ["u1"]]


def test_paused_undone_and_begun_again() -> None:
    cluster = Cluster([make(0), make(1)], CANARY)
    paused = cluster.step(2, lambda _: Health.WELL, RolloutRequests(is_paused=True))
    assert (paused.moves, paused.record.phase) == ({}, RolloutPhase.PAUSED)
    cluster.step(2, lambda _: Health.WELL)
    undo = RolloutRequests(undo=2)
    for _ in range(3):
        cluster.step(2, lambda _: Health.WELL, undo)
    assert cluster.record.phase is RolloutPhase.ROLLED_BACK
    assert {each.revision for each in cluster.instances.values()} == {1}

    begun = cluster.step(2, lambda _: Health.WELL, RolloutRequests(restart="again"))

    assert begun.record.phase is RolloutPhase.PROGRESSING


def test_a_newer_revision_supersedes_a_rollout_and_goes_straight() -> None:
    cluster = Cluster([make(index) for index in range(4)], CANARY)
    cluster.step(2, lambda _: Health.WELL)

    cluster.run(3)

    assert cluster.order[:2] == [["u0"], ["u0"]]
    assert {each.revision for each in cluster.instances.values()} == {3}


def test_without_instances_it_is_complete() -> None:
    assert Cluster([], CANARY).run(2).record.completed == 2


@pytest.mark.parametrize(
    ("now", "is_open"),
    [
        pytest.param(0, True, id="Thursday, 01:00"),
        pytest.param(7 * 3600, False, id="Thursday, 08:00"),
        pytest.param(21 * 3600, True, id="Thursday, 22:00"),
        pytest.param(25 * 3600, True, id="Friday, 02:00, of Thursday"),
        pytest.param(45 * 3600, False, id="Friday, 22:00"),
    ],
)
def test_a_window_may_last_beyond_midnight(now: int, is_open: bool) -> None:
    stated = {"days": ["Wed-Thu"], "from": "22:00", "to": "04:00", "zone": "Europe/Berlin"}
    policy = rollout_policy.parse({"window": stated})

    assert policy.window is not None
    assert policy.window.is_open(float(now)) is is_open


def test_a_wave_waits_for_its_window() -> None:
    cluster = Cluster([make(0)], {"window": {"from": "08:00", "to": "16:00"}})

    found = cluster.step(2, lambda _: Health.WELL)

    assert (found.moves, found.is_window_closed) == ({}, True)
    assert cluster.run(2).record.phase is RolloutPhase.COMPLETE


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(0, 12),
    limit=st.integers(1, 4),
    most=st.integers(0, 3),
    goes_back=st.booleans(),
    broken=st.sets(st.integers(0, 11)),
    waves=st.lists(st.integers(1, 5), max_size=3),
)
def test_whatever_fails_the_limits_are_kept_and_it_ends(
    count: int, limit: int, most: int, goes_back: bool, broken: set[int], waves: list[int]
) -> None:
    stated = {
        "waves": [{"name": f"w{at}", "size": size} for at, size in enumerate(waves)],
        "maxUnavailable": limit,
        "maxFailed": most,
        "onFailure": "Rollback" if goes_back else "Stop",
    }
    cluster = Cluster([make(index) for index in range(count)], stated)

    def follow(each: InstanceState) -> Health:
        is_broken = int(each.uid[1:]) in broken and each.revision == 2
        return Health.FAILED if is_broken else Health.WELL

    found = cluster.run(2, follow)

    assert all(len(each) <= limit for each in cluster.order)
    failing = len(broken & set(range(count)))
    if failing <= most:
        assert found.record.phase is RolloutPhase.COMPLETE
        assert {each.revision for each in cluster.instances.values()} <= {2}
    if found.record.phase is RolloutPhase.ROLLED_BACK:
        assert {each.revision for each in cluster.instances.values()} <= {1}


def test_ten_thousand_instances_are_decided_in_time() -> None:
    """Figures are those of a benchmark; here only that no step looks at all instances for each of them."""
    instances = [make(index) for index in range(10_000)]
    policy: RolloutPolicy = rollout_policy.parse({"waves": [{"name": "few", "size": "10%"}], "maxUnavailable": "10%"})
    record = RolloutRecord(revision=1, completed=1, phase=RolloutPhase.COMPLETE)

    found = rollout_decision.decide(policy, instances, newest=2, known={1, 2}, before=record, now=0.0)

    assert len(found.moves) == 100
    assert list(itertools.islice(found.moves, 2)) == ["u0", "u1"]


# ---------------------------------------------------------------- what a rollout reads of one instance


@pytest.mark.parametrize(
    ("settings", "status", "is_held"),
    [
        ({}, {}, False),
        ({"paused": True}, {}, True),
        ({"suspended": True}, {}, True),
        ({}, {"phase": "UpdateStopped"}, True),
        ({"rollback": {"onFailure": True}}, {"target": {"cause": "Spec"}}, False),
        ({"rollback": {"toRevision": 0}}, {"target": {"cause": "Rollback"}}, True),
        ({"rollback": {"toSnapshot": "before"}}, {"target": {"cause": "Rollback"}}, True),
        ({"rollback": {"toRevision": 3}}, {"target": {"cause": "Spec"}}, False),
        ({"rollback": None}, {"target": None}, False),
    ],
)
def test_what_its_user_decided_holds_an_instance(settings: Any, status: Any, *, is_held: bool) -> None:
    """A request that a later change overrode holds nothing; a rollback to a snapshot is one like any other."""
    assert rollout_decision.is_held(settings, status) is is_held


def test_one_that_went_back_by_itself_says_what_made_it_go_back() -> None:
    """Not how it is since."""
    ready = [{"type": "Ready", "status": "True", "message": "all 2 resources are ready"}]
    target = {"cause": "AutomaticRollback", "message": "web: cannot apply"}
    assert rollout_decision.find_message({"conditions": ready}) == "all 2 resources are ready"
    assert rollout_decision.find_message({"conditions": ready, "target": target}) == "web: cannot apply"
    assert rollout_decision.find_message({"conditions": "?", "target": {"cause": 1}}) == ""
