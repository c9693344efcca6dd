"""Random targets, at random moments, in a failing world: a Stack ends up at its user's target."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from support import soak
from support.checks.deletion_invariants import CLAIM
from support.server import fake_kinds
from support.stateful import hostile_specs
from support.stateful.hostile_tenant import Deed
from support.stateful.random_templates import Draft, Edit
from support.stateful.state_machine import Attacked, Harassed, HarassedTrees, Named, Targets, Trees

QUICK = settings(
    max_examples=100,
    stateful_step_count=30,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
QUICK_SEED = 2
"""Stated, so that a renamed machine takes the same steps; other seeds belong to the soak."""
EXAMPLES = "HEARTH_SOAK_EXAMPLES"


def test_every_target_comes_true() -> None:
    """The same steps in every run: about three thousand."""
    run_state_machine_as_test(hypothesis.seed(QUICK_SEED)(Targets), settings=QUICK)


def test_every_target_comes_true_beside_a_hostile_tenant() -> None:
    run_state_machine_as_test(hypothesis.seed(QUICK_SEED)(Attacked), settings=settings(QUICK, max_examples=30))


def test_every_target_comes_true_after_an_adversary() -> None:
    run_state_machine_as_test(hypothesis.seed(QUICK_SEED)(Harassed), settings=settings(QUICK, max_examples=20))


def test_every_target_comes_true_in_a_tree_after_an_adversary() -> None:
    run_state_machine_as_test(hypothesis.seed(QUICK_SEED)(HarassedTrees), settings=settings(QUICK, max_examples=10))


def test_every_target_comes_true_where_names_are_stated() -> None:
    run_state_machine_as_test(hypothesis.seed(QUICK_SEED)(Named), settings=settings(QUICK, max_examples=30))


def test_every_target_comes_true_in_a_tree() -> None:
    run_state_machine_as_test(hypothesis.seed(QUICK_SEED)(Trees), settings=settings(QUICK, max_examples=30))


def test_a_mistake_before_the_first_status_is_a_failed_update() -> None:
    machine = Targets()
    machine.begin(delay=0.0, first={"a": Draft(ready_after=6)}, on_failure=True, rests=False)
    machine.wait(seconds=0.004)
    machine.mistake()
    machine.rest()
    machine.always()
    machine.teardown()


def test_what_an_interrupted_target_made_stays_after_a_restart() -> None:
    machine = Targets()
    machine.begin(delay=None, first={"f": Draft(ready_after=9)}, on_failure=False, rests=False)
    machine.wait(seconds=1.2)
    machine.edit([Edit(what="rename"), Edit(what="fails", number=1)])
    machine.crash(delay=0.0)
    machine.rest()
    machine.always()
    machine.teardown()


def test_a_target_that_supersedes_an_unfinished_one_is_known_after_a_crash() -> None:
    first = {"e": Draft(kind="claim"), "h": Draft()}
    machine = Targets()
    machine.begin(delay=None, first=first, on_failure=False, rests=True)
    machine.order(drafts={"e": Draft(kind="config"), "h": Draft(value=2, ready_after=6)})
    machine.wait(seconds=1.2)
    machine.order(drafts=first)
    machine.wait(seconds=0.1)
    machine.mistake()
    machine.crash(delay=0.0)
    machine.rest()
    machine.always()
    assert [each["metadata"]["name"] for each in machine.now.children() if each["kind"] == CLAIM] == ["shop-e"]
    machine.teardown()


def test_what_a_rollback_made_beside_a_claim_is_held_back_later() -> None:
    failing = {"d": Draft(kind="claim"), "h": Draft(fails=True)}
    machine = Targets()
    machine.begin(delay=0.0, first={"d": Draft(), "h": Draft()}, on_failure=True, rests=True)
    machine.order(drafts={**failing, "h": Draft(value=2, ready_after=9)})
    machine.wait(seconds=1.2)
    machine.delete_child(number=0)
    machine.order(drafts=failing)
    machine.rest()
    assert find_kinds(machine, "shop-d") == {"Probe", CLAIM}
    machine.order(drafts={**failing, "h": Draft(value=3, ready_after=9)})
    machine.wait(seconds=1.2)
    assert find_kinds(machine, "shop-d") == {"Probe", CLAIM}
    machine.rest()
    machine.always()
    assert find_kinds(machine, "shop-d") == {CLAIM}
    machine.teardown()


def find_kinds(machine: Targets, prefix: str) -> set[str]:
    """The kinds of objects with such names."""
    return {each["kind"] for each in machine.now.children() if each["metadata"]["name"].startswith(prefix)}


def test_no_two_revisions_share_a_number() -> None:
    machine = Targets()
    machine.begin(delay=3.0, first={"a": Draft()}, on_failure=True, rests=True)
    machine.now.disturb(writes=1, how="lost")
    machine.order(drafts={"a": Draft(value=2)})
    machine.wait(seconds=0.1)
    machine.order(drafts={"a": Draft(value=3, fails=True)})
    machine.rest()
    machine.always()
    stored = machine.now.world.server.list_all(fake_kinds.CONTROLLER_REVISION.kind)
    assert sorted(raw["revision"] for raw in stored) == [1, 2, 3]
    machine.teardown()


def test_what_a_hostile_tenant_forges_of_its_own_is_named() -> None:
    machine = Attacked()
    machine.begin(delay=None, first={"a": Draft()}, on_failure=False, rests=True)
    machine.attack([Deed(act="write-stack", number=list(hostile_specs.SPECS).index("quiet"))])
    machine.rest()
    machine.attack([Deed(act="forge-child"), Deed(act="tamper-revision"), Deed(act="patch-status")])
    mallory = machine.now.mallory
    assert mallory is not None
    assert len(mallory.find_unnamed()) == 2
    machine.rest()
    assert mallory.find_unnamed() == []
    machine.teardown()


@pytest.mark.soak
@pytest.mark.parametrize("machine", [Targets, Attacked, Trees, Named, Harassed, HarassedTrees])
def test_every_target_comes_true_for_long(machine: type[Targets]) -> None:
    beginnings = soak.amount(1_000, full=5_000, variable=EXAMPLES)
    soak.PROGRESS.start(beginnings)
    longer = settings(QUICK, max_examples=beginnings, stateful_step_count=60)
    run_state_machine_as_test(hypothesis.seed(soak.seed())(machine), settings=longer)
