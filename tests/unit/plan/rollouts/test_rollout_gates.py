"""Gates of a rollout: the evidence that a wave needs, and evidence that does not count."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.model import approvals, limits
from hearth.model.approvals import Approval, Decision
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.rollouts import rollout_decision, rollout_gates, rollout_policy, rollout_report
from hearth.plan.rollouts.instance_state import Health, InstanceState
from hearth.plan.rollouts.rollout_decision import RolloutDecision, RolloutPhase, RolloutRecord, RolloutRequests
from hearth.plan.rollouts.rollout_gates import GateResult, GateState, RolloutAttempt
from support.units.blueprints import HASHER

GATE = "release-manager"
WAVES = {"waves": [{"name": "canary", "size": 1}], "gates": [{"name": GATE, "approval": {}}]}
ATTEMPT = RolloutAttempt(
    definition="sites.platform.example", uid="uid-1", revision=2, revision_hash="k1:2", started="a", restart=""
)
TIME = "2026-11-30T09:00:00Z"


def stamp(
    gate: GateResult, decision: Decision = Decision.APPROVED, *, signer: KeyedHasher = HASHER, **subject: str
) -> str:
    whole = rollout_gates.make_subject(ATTEMPT.definition, ATTEMPT.uid, gate.digest)
    approval = Approval(decision=decision, user="bob", time=TIME, reason="soaked")
    return approvals.sign_approval(approval, dataclasses.replace(whole, **subject), signer=signer)


def find(stamps: str, attempt: RolloutAttempt = ATTEMPT) -> dict[str, GateState]:
    """The state of the only gate by wave."""
    found = rollout_gates.find_results((GATE,), ("canary", "rest"), attempt, stamps, hashes=HASHER)
    return {each.wave: each.state for each in found}


CANARY, REST = rollout_gates.find_results((GATE,), ("canary", "rest"), ATTEMPT, "", hashes=HASHER)
NOTHING = {"canary": GateState.WAITING, "rest": GateState.WAITING}


def test_an_approval_is_valid_for_its_gate_after_its_wave() -> None:
    assert find(stamp(CANARY)) == {**NOTHING, "canary": GateState.PASSED}
    assert find(stamp(REST)) == {**NOTHING, "rest": GateState.PASSED}
    other = rollout_gates.find_results(("other",), ("canary",), ATTEMPT, stamp(CANARY), hashes=HASHER)
    assert [each.state for each in other] == [GateState.WAITING]


@pytest.mark.parametrize(
    "change",
    [
        {"definition": "shops.platform.example"},
        {"uid": "uid-2"},
        {"revision": 3},
        {"revision_hash": "k1:3"},
        {"started": "b"},
        {"restart": "again"},
    ],
)
def test_an_approval_is_not_valid_for_another_attempt(change: dict[str, Any]) -> None:
    assert find(stamp(CANARY), dataclasses.replace(ATTEMPT, **change)) == NOTHING


@pytest.mark.parametrize(
    "stamps",
    [
        pytest.param(stamp(CANARY, signer=KeyedHasher(b"not the key of this cluster")), id="another key"),
        pytest.param(stamp(CANARY, name="shops.platform.example"), id="another definition"),
        pytest.param(stamp(CANARY, uid="uid-2"), id="another UID"),
        pytest.param(stamp(CANARY, purpose=approvals.PLAN), id="a StackPlan"),
        pytest.param(stamp(CANARY).replace("bob", "eve"), id="another user"),
        pytest.param(stamp(CANARY, Decision.REJECTED).replace("rejected", "approved"), id="another decision"),
        pytest.param(stamp(CANARY) + " ", id="more text"),
        pytest.param(stamp(CANARY) + "\n" + "x" * limits.GATE_APPROVALS, id="too long"),
        pytest.param('{"digest": {}}\n[]\n5\nnull\n' + "[" * 5_000, id="damaged"),
    ],
)
def test_a_stamp_that_the_webhook_did_not_make_proves_nothing(stamps: str) -> None:
    assert find(stamps) == NOTHING


def test_an_older_approval_does_not_replace_a_rejection() -> None:
    both = [stamp(CANARY), stamp(CANARY, Decision.REJECTED)]

    for stamps in (both, both[::-1]):
        assert find(rollout_gates.join_stamps(stamps))["canary"] is GateState.FAILED


def test_stamps_that_are_too_long_are_not_stored() -> None:
    with pytest.raises(ValueError, match="at most 65536 are possible"):
        rollout_gates.join_stamps(["x" * 40_000, "y" * 40_000])


class Rollout:
    """The rollout of revision 2 to three instances, which follow at once."""

    def __init__(self, **stated: Any) -> None:
        self.policy = rollout_policy.parse({**WAVES, "maxUnavailable": "100%", **stated})
        self.instances = {f"u{index}": 1 for index in range(3)}
        self.record = RolloutRecord(revision=1, completed=1, phase=RolloutPhase.COMPLETE)
        self.stamps: list[str] = []

    def run(
        self, requests: RolloutRequests = RolloutRequests(), *, newest: int = 2, now: float = 0.0
    ) -> RolloutDecision:
        """Decide until nothing changes."""
        for _ in range(20):
            record = rollout_decision.begin(self.record, newest, requests, now=now)
            assert rollout_decision.begin(record, newest, requests, now=now + 60) == record
            attempt = dataclasses.replace(
                ATTEMPT, revision=record.revision, started=record.started, restart=record.restart
            )
            gates = rollout_gates.find_results(
                self.policy.gates, self.policy.wave_names, attempt, "\n".join(self.stamps), hashes=HASHER
            )
            found = rollout_decision.decide(
                self.policy,
                [
                    InstanceState(
                        uid=uid, namespace="n", name=uid, revision=number, observed=number, health=Health.WELL
                    )
                    for uid, number in self.instances.items()
                ],
                newest=newest,
                before=record,
                requests=requests,
                gates=gates,
                now=now,
            )
            # A restart of the operator in between changes nothing.
            reported = {key: value for key, value in rollout_report.encode(found).items() if value is not None}
            self.record = rollout_report.decode({"rollout": reported}, self.policy)
            assert self.record == found.record
            self.instances |= found.moves
            if found.is_settled:
                return found
        raise AssertionError("it does not end")

    def decide(self, decision: Decision) -> None:
        """Decide about the gate that waits."""
        (gate,) = self.run().waiting_gates
        self.stamps.append(stamp(gate, decision))


def test_each_wave_waits_for_the_gate_including_the_last_one() -> None:
    rollout = Rollout()

    at_canary = rollout.run()
    assert (at_canary.wave, at_canary.is_at_gate, list(rollout.instances.values())) == ("canary", True, [2, 1, 1])
    rollout.decide(Decision.APPROVED)
    at_rest = rollout.run()
    assert (at_rest.wave, at_rest.record.completed, list(rollout.instances.values())) == ("rest", 1, [2, 2, 2])
    assert [(each.wave, each.state) for each in at_rest.gates] == [("canary", "Passed"), ("rest", "Waiting")]
    rollout.decide(Decision.APPROVED)
    found = rollout.run()
    assert (found.record.phase, found.record.completed) == (RolloutPhase.COMPLETE, 2)


def test_all_gates_of_a_wave_must_pass() -> None:
    rollout = Rollout(gates=[{"name": "first", "approval": {}}, {"name": "second", "approval": {}}])

    first, second = rollout.run().waiting_gates
    rollout.stamps = [stamp(second)]
    found = rollout.run()

    assert [each.name for each in found.waiting_gates] == [first.name]
    assert found.wave == "canary"


def test_a_rejection_stops_the_rollout_and_is_not_forced() -> None:
    rollout = Rollout()
    rollout.decide(Decision.REJECTED)

    found = rollout.run()
    for each in (found, rollout.run(RolloutRequests(force=2)), rollout.run(RolloutRequests(promote="2/canary"))):
        assert (each.record.phase, list(rollout.instances.values())) == (RolloutPhase.STOPPED, [2, 1, 1])
    reason, message = rollout_report.explain(found)
    assert reason == "RolloutStopped"
    assert f"gate {GATE} after wave canary was rejected by bob at {TIME}: soaked" in message
    assert "soaked" not in rollout_report.explain(found, is_public=True)[1]


def test_a_rejection_rolls_back_where_the_policy_says_so() -> None:
    rollout = Rollout(onFailure="Rollback")
    rollout.decide(Decision.APPROVED)
    rollout.decide(Decision.REJECTED)

    found = rollout.run()

    assert (found.record.phase, set(rollout.instances.values())) == (RolloutPhase.ROLLED_BACK, {1})
    assert "after wave rest was rejected by bob" in rollout_report.explain(found)[1]


def test_an_approval_of_a_passed_wave_can_be_withdrawn_while_the_rollout_runs() -> None:
    rollout = Rollout()
    (canary,) = rollout.run().waiting_gates
    rollout.stamps = [stamp(canary)]
    rollout.run()

    rollout.stamps = [stamp(canary, Decision.REJECTED)]

    assert rollout.run().record.phase is RolloutPhase.STOPPED


def test_force_and_promote_do_not_skip_a_gate() -> None:
    rollout = Rollout(pause="1h")

    for requests in (RolloutRequests(promote="2/canary"), RolloutRequests(promote="2/canary", force=2)):
        assert rollout.run(requests).is_at_gate
    assert list(rollout.instances.values()) == [2, 1, 1]


def test_a_restart_asks_again() -> None:
    rollout = Rollout()
    rollout.decide(Decision.APPROVED)
    rollout.decide(Decision.REJECTED)
    assert rollout.run().record.phase is RolloutPhase.STOPPED

    found = rollout.run(RolloutRequests(restart="again"), now=60.0)

    assert (found.wave, found.is_at_gate, found.failed_gates) == ("canary", True, ())


def test_a_later_revision_with_the_same_number_of_waves_asks_again() -> None:
    rollout = Rollout()
    rollout.decide(Decision.APPROVED)
    rollout.run()

    found = rollout.run(newest=3)

    assert (found.wave, found.is_at_gate, list(rollout.instances.values())) == ("canary", True, [3, 2, 2])


def test_a_wave_without_instances_needs_no_approval() -> None:
    rollout = Rollout(waves=[{"name": "none", "select": {"matchLabels": {"a": "b"}}}])

    assert rollout.run().wave == "rest"
    rollout.instances = {}
    assert rollout.run().record.phase is RolloutPhase.COMPLETE


def test_a_failure_of_an_instance_at_a_gate_stops_the_rollout() -> None:
    rollout = Rollout()
    at_gate = rollout.run()
    failed = InstanceState(uid="u0", namespace="n", name="u0", revision=2, observed=2, health=Health.FAILED)

    found = rollout_decision.decide(
        rollout.policy, [failed], newest=2, before=at_gate.record, gates=at_gate.gates, now=0.0
    )

    assert found.record.phase is RolloutPhase.STOPPED


def test_the_message_names_the_gate_and_the_way_to_approve_it() -> None:
    found = Rollout().run()

    reason, message = rollout_report.explain(found)
    assert reason == "WaitingForApproval"
    assert message.startswith("wave canary (1 instance): 1 of 3 instances are ready with revision 2; it waits for the ")
    assert f"approval of {GATE} ({found.gates[0].digest[:8]}); a user with the verb approve" in message
    assert "does not serve its admission webhook" in rollout_report.explain(found, is_approvable=False)[1]


def test_each_decision_is_one_event_without_the_reason_of_the_user() -> None:
    rollout = Rollout()
    before = rollout_report.encode(rollout.run())
    rollout.decide(Decision.APPROVED)
    found = rollout.run()

    (event,) = rollout_report.find_events(found, before)
    assert event == (
        "Normal",
        "GatePassed",
        f"revision 2: gate {GATE} after wave canary was approved by bob at {TIME}",
    )
    assert list(rollout_report.find_events(found, rollout_report.encode(found))) == []


def test_mistakes_of_gates_are_reported_together() -> None:
    gates = [{"name": GATE, "approval": {}}, {"name": GATE, "approval": {}}]

    twice, manual = rollout_policy.find_mistakes({"strategy": "Manual", "gates": gates})

    assert str(twice) == f"spec.rollout.gates[1].name: is {GATE}, the name of another gate; choose another"
    assert str(manual).startswith(
        "spec.rollout.gates: cannot stop instances that users move (strategy: Manual); remove "
    )


@pytest.mark.parametrize("field", rollout_report.RECORD_FIELDS)
def test_a_record_with_a_changed_field_is_not_genuine(field: str) -> None:
    rollout: dict[str, Any] = {"revision": 2, "phase": "Progressing", "wave": "canary", "startedAt": TIME}
    signature = HASHER.sign(rollout_report.RECORD, rollout_report.list_signed("uid-1", rollout))
    signed = {**rollout, "signature": signature}

    assert rollout_report.is_genuine({"rollout": signed}, "uid-1", signatures=HASHER)
    assert not rollout_report.is_genuine({"rollout": signed}, "uid-2", signatures=HASHER)
    assert not rollout_report.is_genuine({"rollout": {**signed, field: "x"}}, "uid-1", signatures=HASHER)
    assert not rollout_report.is_genuine({}, "uid-1", signatures=HASHER)
