"""Table tests of rollout decisions, and whole rollouts with instances that follow immediately, late or never."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth.plan.rollouts import instance_state, rollout_decision, rollout_policy, rollout_report
from hearth.plan.rollouts.instance_state import Health, InstanceState
from hearth.plan.rollouts.rollout_decision import (
    RolloutDecision,
    RolloutPhase,
    RolloutRecord,
    RolloutRequests,
)
from hearth.plan.rollouts.rollout_policy import RolloutPolicy

CANARY = {"waves": [{"name": "canary", "select": {"matchLabels": {"tier": "canary"}}}], "maxUnavailable": 1}
Follow = Callable[[InstanceState], Health]


def make(index: int, *, revision: int = 1, **options: object) -> InstanceState:
    labels = {"tier": "canary"} if index == 0 else {}
    fields: dict[str, object] = {"namespace": "n", "health": Health.WELL, "observed": revision, "labels": labels}
    return InstanceState(uid=f"u{index}", name=f"i{index:03}", revision=revision, **{**fields, **options})  # type: ignore[arg-type]


class Cluster:
    """Instances that follow their assigned revision."""

    def __init__(self, instances: list[InstanceState], stated: dict[str, object]) -> None:
        self.instances = {each.uid: each for each in instances}
        self.policy = rollout_policy.parse(stated)
        self.record = RolloutRecord(revision=1, completed=1, phase=RolloutPhase.COMPLETE)
        self.now = 0.0
        self.order: list[list[str]] = []

    def step(self, newest: int, follow: Follow, requests: RolloutRequests = RolloutRequests()) -> RolloutDecision:
        """Decide once, and let moved instances follow."""
        found = rollout_decision.decide(
            self.policy,
            self.instances.values(),
            newest=newest,
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
                followed = {**vars_of(each), "health": follow(each), "observed": each.revision}
                self.instances[uid] = InstanceState(**followed)  # type: ignore[arg-type]
        return found

    def run(self, newest: int, follow: Follow = lambda _: Health.WELL) -> RolloutDecision:
        """Continue until nothing changes."""
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
    reason, message = rollout_report.explain(found)
    assert reason == "RolloutStopped"
    assert "(1 instance): 0 of 200 instances are ready with revision 2; 1 failed" in message


def test_what_failed_goes_back_where_the_definition_says_so() -> None:
    stated = {"waves": [{"name": "few", "size": "10%"}], "maxUnavailable": 5, "onFailure": "Rollback"}
    cluster = Cluster([make(index) for index in range(50)], stated)

    found = cluster.run(2, lambda each: Health.FAILED if each.revision == 2 and each.uid == "u3" else Health.WELL)

    assert found.record.phase is RolloutPhase.ROLLED_BACK
    assert {each.revision for each in cluster.instances.values()} == {1}
    # A corrected definition restarts the rollout.
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


@pytest.mark.parametrize(
    "options", [{"hold": "is paused"}, {"pin": 1}, {"unfit": "spec.size: is required"}], ids=["held", "pinned", "unfit"]
)
def test_held_instances_stay_and_follow_when_they_are_released(options: dict[str, Any]) -> None:
    cluster = Cluster([make(0), make(1, **options)], CANARY)

    found = cluster.run(2)

    assert found.record.phase is RolloutPhase.COMPLETE
    assert cluster.instances["u1"].revision == 1
    cluster.instances["u1"] = make(1)
    cluster.run(2)
    assert cluster.instances["u1"].revision == 2


def test_a_pin_moves_an_instance_alone() -> None:
    cluster = Cluster([make(0), make(1, pin=2)], {"strategy": "Manual"})

    cluster.step(2, lambda _: Health.WELL)

    assert [each.revision for each in cluster.instances.values()] == [1, 2]


def test_a_pin_that_does_not_count_holds_an_instance_and_is_reported() -> None:
    wrong = make(1, revision=2, pin=9, pin_mistake="there is no revision 9")
    cluster = Cluster([make(0, revision=2), wrong], {})

    found = cluster.run(3)

    assert cluster.instances["u1"].revision == 2
    assert [(each.instance.uid, each.reason) for each in found.held] == [("u1", "there is no revision 9")]


@pytest.mark.parametrize("options", [{"hold": "is paused"}, {"pin": 1}, {"unfit": "spec.size: is required"}])
def test_none_keeps_a_revision_below_the_minimum(options: dict[str, Any]) -> None:
    found = rollout_decision.decide(
        rollout_policy.parse({}), [make(0, **options)], newest=2, minimum=2, before=RolloutRecord(), now=0.0
    )

    assert (dict(found.moves), found.held) == ({"u0": 2}, ())


def test_no_rollout_goes_back_below_the_minimum() -> None:
    cluster = Cluster([make(0)], {"onFailure": "Rollback"})
    cluster.step(2, lambda _: Health.FAILED)

    found = rollout_decision.decide(
        cluster.policy, cluster.instances.values(), newest=2, minimum=2, before=cluster.record, now=0.0
    )

    assert found.record.phase is RolloutPhase.STOPPED


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


class LateStatuses(Cluster):
    """Instances whose statuses are written at any time and arrive later in order.

    Each status describes one stay at a revision.
    """

    def __init__(self, count: int, stated: dict[str, object]) -> None:
        super().__init__([make(index, namespace=f"n{index % 3}") for index in range(count)], stated)
        self.stays = dict.fromkeys(self.instances, 0)
        """Number of moves of each instance, by UID."""
        self.arrived = dict.fromkeys(self.instances, (0, 1, Health.WELL))
        """Stay, revision and health in the last status that arrived, by UID."""
        self.sent: dict[str, list[tuple[int, int, Health]]] = {uid: [] for uid in self.instances}

    def decide(self, newest: int, requests: RolloutRequests = RolloutRequests()) -> None:
        """Decide once. Moved instances keep the status that arrived last."""
        found = rollout_decision.decide(
            self.policy, self.instances.values(), newest=newest, before=self.record, requests=requests, now=self.now
        )
        self.record = found.record
        for uid, number in found.moves.items():
            self.stays[uid] += 1
            self.change(uid, number)

    def write(self, uid: str, health: Health) -> None:
        """Write the status of an instance about its current stay."""
        self.sent[uid].append((self.stays[uid], self.instances[uid].revision, health))

    def arrive(self, uid: str) -> None:
        """Deliver the next written status."""
        if self.sent[uid]:
            self.arrived[uid] = self.sent[uid].pop(0)
            self.change(uid, self.instances[uid].revision)

    def change(self, uid: str, revision: int) -> None:
        _, observed, health = self.arrived[uid]
        fields = {"revision": revision, "observed": observed}
        judged = health if observed == revision else Health.WORKING
        self.instances[uid] = InstanceState(**{**vars_of(self.instances[uid]), **fields, "health": judged})  # type: ignore[arg-type]

    def find_misjudged(self) -> list[str]:
        """Instances that are judged by a status about an earlier stay."""
        judged = (uid for uid, each in self.instances.items() if each.observed == each.revision)
        return [uid for uid in judged if self.arrived[uid][0] != self.stays[uid]]


ACTIONS = st.one_of(
    st.tuples(st.just("decide"), st.integers(0, 3)),
    st.tuples(st.just("write"), st.integers(0, 5)),
    st.tuples(st.just("arrive"), st.integers(0, 5)),
    st.tuples(st.just("newer"), st.just(0)),
)


@settings(max_examples=300, deadline=None)
@given(
    actions=st.lists(ACTIONS, max_size=80),
    broken=st.sets(st.integers(2, 8)),
    goes_back=st.booleans(),
    strategy=st.sampled_from(["Progressive", "AllAtOnce"]),
)
def test_no_instance_is_judged_by_a_status_about_an_earlier_move(
    actions: list[tuple[str, int]], broken: set[int], strategy: str, *, goes_back: bool
) -> None:
    stated = {"maxUnavailable": 2, "strategy": strategy, "onFailure": "Rollback" if goes_back else "Stop"}
    cluster, newest = LateStatuses(6, stated), 2
    for at, (action, value) in enumerate(actions):
        match action:
            case "newer":
                newest += 1
            case "write":
                is_broken = cluster.instances[f"u{value}"].revision in broken
                cluster.write(f"u{value}", Health.FAILED if is_broken else Health.WELL)
            case "arrive":
                cluster.arrive(f"u{value}")
            case _:
                undo, restart = RolloutRequests(undo=newest), RolloutRequests(restart=str(at))
                requests = (RolloutRequests(), RolloutRequests(), undo, restart)[value]
                cluster.decide(newest, requests)
        assert cluster.find_misjudged() == []


def make_namespaces(*counts: int, **options: Any) -> list[InstanceState]:
    """Instances in several namespaces; each count is the number in one."""
    spread = [f"n{at}" for at, count in enumerate(counts) for _ in range(count)]
    return [make(index, namespace=namespace, **options) for index, namespace in enumerate(spread)]


def test_failures_of_one_namespace_count_as_one_where_there_are_others() -> None:
    cluster = Cluster(make_namespaces(3, 3), {"maxUnavailable": 6, "maxFailed": 1})

    found = cluster.run(2, lambda each: Health.FAILED if each.namespace == "n0" else Health.WELL)

    assert (found.record.phase, found.ready, len(found.failed)) == (RolloutPhase.COMPLETE, 3, 3)
    alone = Cluster(make_namespaces(6), {"maxUnavailable": 1, "maxFailed": 1})
    assert alone.run(2, lambda _: Health.FAILED).record.phase is RolloutPhase.STOPPED
    assert sum(each.revision == 2 for each in alone.instances.values()) == 2


def test_an_instance_whose_user_is_in_the_way_is_held_and_stops_nothing() -> None:
    cluster = Cluster(make_namespaces(2, 2), {"maxUnavailable": 1, "onFailure": "Rollback"})

    found = cluster.run(2, lambda each: Health.BLOCKED if each.uid == "u0" else Health.WELL)

    assert (found.record.phase, [each.instance.uid for each in found.held]) == (RolloutPhase.COMPLETE, ["u0"])


def test_an_outage_neither_stops_a_rollout_nor_takes_it_back() -> None:
    cluster = Cluster(make_namespaces(2, 2, 2), {"maxUnavailable": 2, "onFailure": "Rollback"})
    for _ in range(5):
        cluster.step(2, lambda _: Health.RETRYING)
    assert cluster.record.phase is RolloutPhase.PROGRESSING
    assert sum(each.revision == 2 for each in cluster.instances.values()) < 6
    for uid, each in cluster.instances.items():
        if each.health is Health.RETRYING:
            cluster.instances[uid] = InstanceState(**{**vars_of(each), "health": Health.WELL})  # type: ignore[arg-type]
    assert cluster.run(2).record.phase is RolloutPhase.COMPLETE


def test_an_instance_that_never_finishes_takes_no_turn_of_another_namespace() -> None:
    cluster = Cluster(make_namespaces(1, 4), {"maxUnavailable": 1, "maxFailed": 50})

    def follow(each: InstanceState) -> Health:
        return Health.WORKING if each.uid == "u0" else Health.WELL

    cluster.step(2, follow)
    cluster.instances["u0"] = InstanceState(**{**vars_of(cluster.instances["u0"]), "since": 0.0})  # type: ignore[arg-type]
    cluster.step(2, follow)
    assert [each.revision for each in cluster.instances.values()] == [2, 1, 1, 1, 1]
    cluster.now = 301.0
    for _ in range(6):
        cluster.step(2, follow)
    assert [each.revision for each in cluster.instances.values()] == [2, 2, 2, 2, 2]
    cluster.now = 1801.0
    found = cluster.step(2, follow)
    assert (found.record.phase, [each.uid for each in found.failed]) == (RolloutPhase.COMPLETE, ["u0"])


def test_one_namespace_takes_half_of_a_wave_while_others_wait() -> None:
    cluster = Cluster(make_namespaces(8, 2), {"maxUnavailable": 4})

    cluster.step(2, lambda _: Health.WORKING)

    assert cluster.order == [["u0", "u1", "u8", "u9"]]


def test_a_forced_rollout_continues_although_instances_fail() -> None:
    cluster = Cluster([make(index) for index in range(4)], {"maxUnavailable": 1, "onFailure": "Stop"})
    assert cluster.run(2, lambda _: Health.FAILED).record.phase is RolloutPhase.STOPPED

    found = [cluster.step(2, lambda _: Health.FAILED, RolloutRequests(force=2)) for _ in range(10)][-1]

    assert (found.record.phase, found.updated) == (RolloutPhase.COMPLETE, 4)
    # A later revision is not forced.
    cluster.instances = {uid: make(int(uid[1:]), revision=2) for uid in cluster.instances}
    assert cluster.run(3, lambda _: Health.FAILED).record.phase is RolloutPhase.STOPPED


def test_one_that_was_held_goes_back_once_it_is_released() -> None:
    cluster = Cluster([make(0), make(1, revision=2, hold="is paused")], {"onFailure": "Rollback"})
    found = cluster.run(2, lambda each: Health.FAILED if each.revision == 2 else Health.WELL)
    assert rollout_report.explain(found)[1] == (
        "revision 2 was rolled back: 1 still have it; 1 held: n/i001: is paused; all other instances are back at "
        "revision 1; "
        "correct the definition"
    )

    cluster.instances["u1"] = make(1, revision=2)
    cluster.run(2)

    assert {each.revision for each in cluster.instances.values()} == {1}


def test_a_manual_rollout_without_moves_is_ready() -> None:
    cluster = Cluster([make(0, promoted=2), make(1)], {"strategy": "Manual"})
    moving = cluster.step(2, lambda _: Health.WORKING)
    assert rollout_report.explain(moving)[0] == "RollingOut"
    cluster.step(2, lambda _: Health.WELL)

    found = cluster.step(2, lambda _: Health.WELL)

    assert (found.is_settled, rollout_report.explain(found)[0]) == (True, "WaitingForPromotion")


def test_an_instance_that_was_rolled_back_by_its_user_does_not_count_as_updated() -> None:
    cluster = Cluster([make(0, revision=2, active=1, hold="was rolled back by its user"), make(1)], {})

    found = cluster.run(2)

    assert (found.instances, found.updated, found.ready) == (2, 1, 1)


def test_an_event_names_no_instance_and_quotes_none() -> None:
    hostile = make(0, revision=2, health=Health.FAILED, message="found 'x; rm -rf'")
    found = Cluster([hostile, make(1, unfit="found 'y'")], {}).step(2, lambda _: Health.WELL)

    texts = [
        rollout_report.explain(found, is_public=True)[1],
        *(each[2] for each in rollout_report.find_events(found, {})),
    ]

    assert len(texts) == 2
    assert not [text for text in texts if "rm -rf" in text or "i00" in text or "'y'" in text]


def test_ten_thousand_instances_are_decided_in_time() -> None:
    instances = [make(index) for index in range(10_000)]
    policy: RolloutPolicy = rollout_policy.parse({"waves": [{"name": "few", "size": "10%"}], "maxUnavailable": "10%"})
    record = RolloutRecord(revision=1, completed=1, phase=RolloutPhase.COMPLETE)

    found = rollout_decision.decide(policy, instances, newest=2, before=record, now=0.0)

    assert len(found.moves) == 100
    assert list(itertools.islice(found.moves, 2)) == ["u0", "u1"]


# ---------------------------------------------------------------- fields of an instance that a rollout reads


@pytest.mark.parametrize(
    ("settings", "status", "hold"),
    [
        ({}, {}, ""),
        ({"paused": True}, {}, "is paused"),
        ({"suspended": True}, {}, "is suspended"),
        ({}, {"phase": "UpdateStopped"}, "is stopped at a breakpoint"),
        ({"rollback": {"onFailure": True}}, {"target": {"cause": "Spec"}}, ""),
        ({"rollback": {"toRevision": 0}}, {"target": {"cause": "Rollback"}}, "was rolled back by its user"),
        ({"rollback": {"toSnapshot": "before"}}, {"target": {"cause": "Rollback"}}, "was rolled back by its user"),
        ({"rollback": {"toRevision": 3}}, {"target": {"cause": "Spec"}}, ""),
        ({"rollback": None}, {"target": None}, ""),
    ],
)
def test_what_its_user_decided_holds_an_instance(settings: Any, status: Any, hold: str) -> None:
    assert instance_state.find_hold_cause(settings, status) == hold


def make_status(phase: str, *, observed: int = 2, reasons: tuple[str, ...] = (), **fields: Any) -> Any:
    problems = [{"reason": each} for each in reasons]
    counts = {"failed": len(reasons)}
    shown = {"phase": phase, "observedGeneration": 1, "observedDefinitionRevision": observed, "problems": problems}
    return {**shown, "resources": counts, **fields}


@pytest.mark.parametrize(
    ("status", "health"),
    [
        pytest.param({}, Health.WORKING, id="new"),
        pytest.param(make_status("UpdateComplete"), Health.WELL, id="well"),
        pytest.param(make_status("UpdateComplete", observed=1), Health.WORKING, id="well before"),
        pytest.param(make_status("UpdateFailed", observed=1), Health.WORKING, id="failed before"),
        pytest.param(make_status("UpdateFailed", observedGeneration=0), Health.WORKING, id="failed before an edit"),
        pytest.param(make_status("UpdateFailed"), Health.FAILED, id="failed"),
        pytest.param(make_status("UpdateFailed", reasons=("Invalid",)), Health.FAILED, id="by its template"),
        pytest.param(make_status("UpdateFailed", reasons=("NotOwned",)), Health.BLOCKED, id="by an object of its user"),
        pytest.param(make_status("UpdateFailed", reasons=("NotOwned", "Invalid")), Health.FAILED, id="by both"),
        pytest.param(make_status("UpdateFailed", reasons=("Unavailable",)), Health.RETRYING, id="by an outage"),
        pytest.param(
            make_status("RollbackComplete", target={"cause": "AutomaticRollback", "reason": "NotOwned"}),
            Health.BLOCKED,
            id="went back because of an object of its user",
        ),
        pytest.param(
            make_status("RollbackComplete", target={"cause": "AutomaticRollback", "reason": "Invalid"}),
            Health.ROLLED_BACK,
            id="went back",
        ),
        pytest.param(
            {"phase": "UpdateComplete", "observedGeneration": 1, "definitionRevision": 2},
            Health.WELL,
            id="a status of an earlier version",
        ),
    ],
)
def test_a_status_counts_for_the_revision_and_the_generation_that_it_names(status: Any, health: Health) -> None:
    assert instance_state.find_health(status, generation=1, revision=2) is health


def test_one_that_went_back_on_its_own_says_what_made_it_go_back() -> None:
    ready = [{"type": "Ready", "status": "True", "message": "all 2 resources are ready"}]
    target = {"cause": "AutomaticRollback", "message": "web: cannot apply"}
    assert instance_state.find_message({"conditions": ready}) == "all 2 resources are ready"
    assert instance_state.find_message({"conditions": ready, "target": target}) == "web: cannot apply"
    assert instance_state.find_message({"conditions": "?", "target": {"cause": 1}}) == ""
