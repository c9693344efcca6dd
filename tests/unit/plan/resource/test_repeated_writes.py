"""Steps that wait because they repeat others."""

from __future__ import annotations

from hearth.model.kinds import ObjectRef
from hearth.model.well_known_kinds import CONFIG_MAP
from hearth.plan.resource import enforcement
from hearth.plan.retry.backoff import BackoffPolicy
from hearth.plan.state import steps
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.state.steps import Apply

STEP = Apply(
    resource="web",
    kind=CONFIG_MAP,
    ref=ObjectRef(group="", kind="ConfigMap", namespace="default", name="web"),
    manifest={},
    hash="1",
    uid=None,
)
STATUS = ResourceStatus(
    state=ResourceState.PROGRESSING,
    reason="Applying",
    cause=Cause.APPLYING,
    message="is being applied",
    planned_ref=STEP.ref,
    step=STEP,
)


def test_a_change_that_waits_because_it_was_made_several_times_says_so() -> None:
    """A user who goes to and fro between two definitions, of which one is refused, does not read that it is being applied."""
    memory, backoff = InMemoryState(), BackoffPolicy(jitter=lambda: 0.0)
    assert enforcement.delay_repeated("web", STATUS, memory=memory, now=100.0) == STATUS
    for number in range(8):
        memory.governor.on_edit()
        memory.governor.count(steps.find_work(STEP), now=100.0 + number, backoff=backoff)

    held = enforcement.delay_repeated("web", STATUS, memory=memory, now=108.0)

    assert held.step is None
    assert held.message.startswith("was written several times lately with the same content")
    assert "a retry request tries once more at once" in held.message
    assert held.requeue_at is not None
    assert held.requeue_at > 108.0
