"""The table of phases is complete and consistent, and its page is up to date."""

from __future__ import annotations

import pytest

from hearth.model import phases
from hearth.model.phases import Phase
from support import repository
from support.checks import phases_page

PAGE = repository.DOCS / "phases.md"
REWRITE = "PYTHONPATH=operator:tests python -m support.checks.phases_page > docs/phases.md"


def test_every_phase_has_its_row() -> None:
    assert list(phases.TABLE) == list(Phase)


def test_every_phase_can_be_reached() -> None:
    reached: set[Phase] = set()
    coming = set(phases.FIRST)
    while coming:
        phase = coming.pop()
        reached.add(phase)
        coming |= set(phases.TABLE[phase].next) - reached

    assert reached == set(Phase)


def test_every_stack_can_be_deleted_from_every_phase() -> None:
    stuck = [
        phase
        for phase in Phase
        if not phase.startswith("Delete") and not phases_page.is_legal(phase, Phase.DELETE_IN_PROGRESS)
    ]

    assert stuck == []


@pytest.mark.parametrize(
    ("before", "after", "is_legal"),
    [
        pytest.param(None, Phase.CREATE_IN_PROGRESS, True, id="a new stack is created"),
        pytest.param(None, Phase.CREATE_FAILED, True, id="a new stack is refused"),
        pytest.param(None, Phase.UPDATE_FAILED, True, id="a new stack is edited by mistake before its first status"),
        pytest.param(None, Phase.UPDATE_IN_PROGRESS, False, id="nothing is updated that never was"),
        pytest.param(Phase.CREATE_COMPLETE, Phase.CREATE_COMPLETE, True, id="staying"),
        pytest.param(Phase.CREATE_IN_PROGRESS, Phase.UPDATE_IN_PROGRESS, True, id="a new target needs no waiting"),
        pytest.param(Phase.UPDATE_COMPLETE, Phase.UPDATE_FAILED, True, id="a new target is refused at once"),
        pytest.param(Phase.UPDATE_FAILED, Phase.UPDATE_COMPLETE, True, id="trying continues behind a failure"),
        pytest.param(Phase.UPDATE_COMPLETE, Phase.CREATE_IN_PROGRESS, False, id="never back to the creation"),
        pytest.param(Phase.DELETE_IN_PROGRESS, Phase.UPDATE_IN_PROGRESS, False, id="a deletion is not taken back"),
        pytest.param(Phase.UPDATE_FAILED, Phase.DELETE_FAILED, True, id="a deletion is refused at once"),
        pytest.param(Phase.DELETE_FAILED, Phase.DELETE_IN_PROGRESS, True, id="a deletion is tried again"),
        pytest.param(Phase.DELETE_COMPLETE, Phase.DELETE_IN_PROGRESS, False, id="gone is gone"),
        pytest.param(Phase.ROLLBACK_FAILED, Phase.SUSPEND_IN_PROGRESS, True, id="anything may be suspended"),
        pytest.param(Phase.UPDATE_COMPLETE, Phase.RESUME_COMPLETE, True, id="suspended for less than a second"),
        pytest.param(Phase.RESUME_COMPLETE, Phase.CREATE_COMPLETE, False, id="what was resumed is new no more"),
        pytest.param(Phase.DELETE_IN_PROGRESS, Phase.SUSPEND_COMPLETE, False, id="a deletion goes before"),
    ],
)
def test_which_phase_may_follow_which(before: Phase | None, after: Phase, is_legal: bool) -> None:
    assert phases_page.is_legal(before, after) is is_legal


@pytest.mark.parametrize("phase", Phase)
def test_ready_is_said_of_what_is_complete_and_runs_alone(phase: Phase) -> None:
    is_ready = phases.TABLE[phase].conditions.ready == "True"

    assert is_ready is (phase.endswith("Complete") and not phase.startswith(("Delete", "Suspend")))


@pytest.mark.parametrize("phase", Phase)
def test_stalled_and_reconciling_follow_from_how_far_it_has_come(phase: Phase) -> None:
    says = phases.TABLE[phase].conditions

    # The result of a check does not end an action, because nothing was tried.
    is_failed = phase.endswith("Failed") and phase is not Phase.CHECK_FAILED

    assert says.stalled is is_failed
    assert says.reconciling is phase.endswith("InProgress")
    assert (says.reason is None) is is_failed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("UpdateFailed", Phase.UPDATE_FAILED, id="a phase"),
        pytest.param("RolledSideways", None, id="of another version, or spoilt"),
        pytest.param(None, None, id="none was written"),
        pytest.param({}, None, id="no text at all"),
    ],
)
def test_a_phase_is_found_by_its_name(text: object, expected: Phase | None) -> None:
    assert phases_page.find(text) is expected


def test_drawn_edges_are_permitted_and_connected() -> None:
    drawn = {(phase, after) for phase, row in phases.TABLE.items() for after in row.drawn}
    reached = {phases.FIRST[0], *(after for _, after in drawn)}

    assert {edge for edge in drawn if edge[1] not in phases.TABLE[edge[0]].next} == set()
    assert {phase for phase, _ in drawn} <= reached
    assert len(drawn) <= 20, "a reader takes in about a dozen edges"


def test_the_page_is_generated_from_the_table() -> None:
    assert PAGE.read_text() == phases_page.document(), f"docs/phases.md is stale; update it: {REWRITE}"
