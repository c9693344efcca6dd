"""The status of a StackDefinition's rollout, and the patches of `kubectl stack rollout`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import Condition, NamedObject
from hearth.cli.stack_views.steering import goals
from hearth.cli.stack_views.steering.goals import GoalState, GoalVerdict
from hearth.cli.stack_views.steering.verbs import AlreadySo, Refusal, VerbResult, Write
from hearth.model import approvals, names, object_fields, value_class
from hearth.model.approvals import Approval
from hearth.model.child import Object
from hearth.plan.rollouts import rollout_gates
from hearth.plan.rollouts.rollout_decision import RolloutPhase
from hearth.plan.rollouts.rollout_gates import GateState
from hearth.plan.rollouts.rollout_report import DefinitionReason

UNDER_WAY: Final = (RolloutPhase.PROGRESSING, RolloutPhase.PAUSED)
FAILURES: Final = (DefinitionReason.ROLLOUT_STOPPED, DefinitionReason.ROLLED_BACK)
"""The reasons of `Ready` after a rollout that failed."""
REVERTED: Final = (RolloutPhase.ROLLING_BACK, RolloutPhase.ROLLED_BACK)


@value_class.dataclass(frozen=True, slots=True)
class ShownGate:
    """A gate after one wave, as the status reports it."""

    wave: str
    name: str
    digest: str
    state: str


@value_class.dataclass(frozen=True, slots=True)
class DefinitionState(NamedObject):
    """A StackDefinition, read from its object."""

    raw: Object

    @property
    def reference(self) -> str:
        """Return the written object in kubectl's notation."""
        return f"stackdefinition.hearth.dev/{self.name}"

    @property
    def kind_name(self) -> str:
        """Return the kind of its instances as arguments name it: `webapp`."""
        return object_fields.text(self.raw, "spec", "names", "kind").lower()

    @property
    def rollout(self) -> Mapping[str, Any]:
        """Return the rollout status of its newest revision; empty before the operator has reported on it."""
        return object_fields.mapping(self.raw, "status", "rollout")

    @property
    def phase(self) -> str:
        """Return the phase of the rollout, "" before the first one."""
        return object_fields.text(self.rollout, "phase")

    @property
    def revision(self) -> int:
        """Return the revision that is rolled out; 0 for none."""
        return object_fields.number(self.rollout, "revision") or 0

    @property
    def completed(self) -> int:
        """Return the last revision that completed its rollout; 0 for none."""
        return object_fields.number(self.rollout, "completed") or 0

    @property
    def gates(self) -> list[ShownGate]:
        """Return the gates of the rollout that have a result, or that it waits for."""
        return [
            ShownGate(*(object_fields.text(each, key) for key in ("wave", "name", "digest", "state")))
            for each in object_fields.entries(self.rollout, "gates")
        ]

    @property
    def waiting_gates(self) -> list[ShownGate]:
        """Return the gates that the rollout waits for."""
        return [gate for gate in self.gates if gate.state == GateState.WAITING]

    @property
    def is_paused(self) -> bool:
        """Return whether its user paused the rollout."""
        return self.annotations.get(names.ROLLOUT_PAUSED) == "true"

    @property
    def is_observed(self) -> bool:
        """Return whether the status describes the current spec and requests."""
        generation = object_fields.number(self.raw, "metadata", "generation")
        restart = object_fields.text(self.annotations, names.ROLLOUT_RESTART)
        is_begun = not restart or not self.phase or restart == object_fields.text(self.rollout, "restart")
        is_undone = self.annotations.get(names.ROLLOUT_UNDO) != str(self.revision) or self.phase not in (
            *UNDER_WAY,
            RolloutPhase.STOPPED,
        )
        return object_fields.number(self.raw, "status", "observedGeneration") == generation and is_begun and is_undone

    @property
    def ready(self) -> Condition:
        """Return the condition `Ready`."""
        return self.condition("Ready")

    @property
    def is_stalled(self) -> bool:
        """Return whether the operator waits for an action of the user."""
        return self.condition("Stalled").is_true

    @property
    def message(self) -> str:
        """Return the operator's message about it."""
        return self.ready.message or "no operator has processed it yet"


def assess(definition: DefinitionState | None) -> GoalState:
    """Return the progress of a rollout: reached, or failed if it needs an action of the user."""
    if definition is None:
        return GoalState(verdict=GoalVerdict.FAILED, message="it was deleted")
    if not definition.is_observed:
        return GoalState(verdict=GoalVerdict.WAITING, message=goals.NOT_OBSERVED)
    if definition.ready.is_true:
        return GoalState(verdict=GoalVerdict.REACHED, message=definition.message)
    # The operator may not have noticed a decision yet.
    undecided = [gate for gate in definition.waiting_gates if find_claim(definition, gate.digest) is None]
    waits = definition.ready.reason == DefinitionReason.WAITING_FOR_APPROVAL and bool(undecided)
    if waits or (definition.is_stalled and definition.phase != RolloutPhase.PAUSED):
        return GoalState(verdict=GoalVerdict.FAILED, message=definition.message)
    return GoalState(verdict=GoalVerdict.WAITING, message=definition.message)


def advise(definition: DefinitionState) -> Iterator[str]:
    """Yield the commands that help after a failed rollout, or that decide about its gates; none if the definition itself was
    refused.
    """
    if definition.ready.reason == DefinitionReason.WAITING_FOR_APPROVAL:
        for gate in definition.waiting_gates:
            yield f"kubectl stack rollout approve {definition.name} {gate.digest[: names.PLAN_DIGITS]}"
            yield f"kubectl stack rollout reject {definition.name} {gate.digest[: names.PLAN_DIGITS]}"
    if definition.ready.reason not in FAILURES:
        return
    is_rejected = any(gate.state == GateState.FAILED for gate in definition.gates)
    first = next(iter(object_fields.entries(definition.rollout, "instances")), None)
    if first is not None:
        name, namespace = object_fields.text(first, "name"), object_fields.text(first, "namespace")
        yield f"kubectl stack why {definition.kind_name}/{name} -n {namespace}"
    if definition.phase == RolloutPhase.STOPPED and definition.completed:
        yield f"kubectl stack rollout undo {definition.name}"
    if definition.phase == RolloutPhase.STOPPED and not is_rejected:
        yield f"kubectl stack rollout force {definition.name}"
    yield f"kubectl stack rollout restart {definition.name}"


def describe_revision(definition: DefinitionState, number: int) -> tuple[str, str]:
    """Return the outcome of a StackDefinition revision, and its color."""
    is_newest = number == object_fields.number(definition.raw, "status", "revision")
    is_completed = number == definition.completed
    is_failed = number == definition.revision and definition.phase in (RolloutPhase.STOPPED, *REVERTED)
    words = {"newest": is_newest, "completed": is_completed, "failed": is_failed}
    text = ", ".join(word for word, holds in words.items() if holds)
    return text, "red" if is_failed else "green" if is_completed else ""


def set_paused(definition: DefinitionState, *, paused: bool) -> VerbResult:
    """Pause or resume the rollout."""
    if definition.is_paused == paused:
        return AlreadySo(said="already paused" if paused else "not paused")
    notes = (
        ()
        if not paused or definition.phase in UNDER_WAY
        else ("no rollout is in progress; the next one will be paused",)
    )
    return annotate(names.ROLLOUT_PAUSED, "true" if paused else None, notes=notes)


def promote(definition: DefinitionState) -> VerbResult:
    """Skip the pause after the current wave."""
    if object_fields.text(definition.raw, "spec", "rollout", "strategy") == "Manual":
        said = (
            "its strategy is Manual; promote single instances instead: kubectl stack promote "
            f"{definition.kind_name}/NAME"
        )
        return Refusal(said=said)
    if not object_fields.text(definition.rollout, "readySince"):
        return Refusal(said=f"the rollout is not in a pause after a wave: {definition.message}")
    return annotate(names.ROLLOUT_PROMOTE, f"{definition.revision}/{object_fields.text(definition.rollout, 'wave')}")


def find_gate(definition: DefinitionState, digest: str) -> ShownGate | Refusal:
    """Return the gate whose digest begins with these digits, or why there is none."""
    request = approvals.parse_request(digest)
    for gate in definition.gates:
        if request.matches_digest(gate.digest):
            return gate
    waiting = [f"{gate.name}: {gate.digest[: names.PLAN_DIGITS]}" for gate in definition.waiting_gates]
    said = f"{digest!r} is not the beginning of the digest of a gate; give at least {names.PLAN_DIGITS} digits"
    return Refusal(said=f"{said} (waiting: {', '.join(waiting) or 'none'})")


def find_claim(definition: DefinitionState, digest: str) -> Approval | None:
    """Return the decision about a gate that the annotation claims; None if there is none."""
    stamps = rollout_gates.split_stamps(definition.annotations.get(names.ANNOTATION_APPROVALS, ""))
    return next((approvals.parse_claim(each) for each in stamps if approvals.find_digest(each) == digest), None)


def read_evidence(revision: Object) -> list[Mapping[str, Any]]:
    """Return the results of gates that are stored with a revision."""
    text = object_fields.text(revision, "metadata", "annotations", names.ANNOTATION_EVIDENCE)
    try:
        return object_fields.entries(orjson.loads(text or "{}"), "gates")
    except ValueError:
        return []


def make_evidence_row(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a gate and the decision about it as cells of a table, each with its color."""
    return [
        (safe_text.one_line(object_fields.text(result, key)), "")
        for key in ("wave", "name", "state", "user", "time", "message")
    ]


def undo(definition: DefinitionState) -> VerbResult:
    """Roll back the revision that is being rolled out."""
    if definition.phase in REVERTED:
        return AlreadySo(said=f"already rolled back: {definition.message}")
    if definition.phase == RolloutPhase.COMPLETE:
        said = f"revision {definition.revision} is fully rolled out; apply the previous definition instead"
        return Refusal(said=said)
    if not definition.completed or not definition.phase:
        return Refusal(said="no earlier revision was fully rolled out, so the rollout cannot be undone")
    note = f"the spec still contains revision {definition.revision}: change it, or `kubectl stack rollout restart`"
    return annotate(names.ROLLOUT_UNDO, str(definition.revision), notes=(note,))


def restart(definition: DefinitionState, *, token: str) -> VerbResult:
    """Restart a rollout that was stopped or rolled back."""
    if definition.phase not in (RolloutPhase.STOPPED, *REVERTED):
        return Refusal(said=f"no rollout was stopped or rolled back: {definition.message}")
    # Otherwise it would be rolled back again.
    removed = (names.ROLLOUT_UNDO,) if names.ROLLOUT_UNDO in definition.annotations else ()
    return annotate(names.ROLLOUT_RESTART, token, removed=removed)


def force(definition: DefinitionState) -> VerbResult:
    """Continue with the newest revision even if instances fail."""
    if not definition.phase:
        return Refusal(said=f"no rollout has started: {definition.message}")
    if definition.phase == RolloutPhase.COMPLETE:
        return AlreadySo(said=f"nothing to force: {definition.message}")
    if any(gate.state == GateState.FAILED for gate in definition.gates):
        return Refusal(
            said=f"a gate was rejected, so the rollout cannot be forced, only restarted: {definition.message}"
        )
    # Otherwise the revision would be rolled back again.
    removed = (names.ROLLOUT_UNDO,) if names.ROLLOUT_UNDO in definition.annotations else ()
    note = "failed instances and instances that are held back do not stop it; it stays forced until the next revision"
    return annotate(names.ROLLOUT_FORCE, str(definition.revision), notes=(note,), removed=removed)


def annotate(
    annotation: str, value: str | None, *, notes: tuple[str, ...] = (), removed: tuple[str, ...] = ()
) -> Write:
    """Return the write of a request. value: None to withdraw the request; removed: further annotations to remove."""
    said = f"annotated: {annotation}={value}" if value is not None else f"annotation removed: {annotation}"
    patch: Object = {"metadata": {"annotations": {annotation: value, **dict.fromkeys(removed)}}}
    return Write(patches=(patch,), said=said, notes=notes)
