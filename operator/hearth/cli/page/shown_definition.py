"""The view of StackDefinitions and their rollouts as values for templates. All texts are cleaned. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib import parse

from hearth.cli.page import shown_stack
from hearth.cli.page.shown_stack import ShownStack
from hearth.cli.stack_views import plan_output, safe_text
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import rollouts
from hearth.cli.stack_views.steering.rollouts import UNDER_WAY, DefinitionState, ShownGate
from hearth.cli.stack_views.tree.stack_view import RowState
from hearth.model import names, object_fields, value_class
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import STACK_DEFINITION
from hearth.plan.rollouts.instance_state import UNHEALTHY_BEFORE
from hearth.plan.rollouts.rollout_decision import RolloutPhase
from hearth.plan.rollouts.rollout_gates import GateState
from hearth.plan.rollouts.rollout_policy import PROGRESSIVE, REST
from hearth.plan.rollouts.rollout_report import DefinitionReason

NO_WAVES: Final[Mapping[str, str]] = {
    "Manual": "The strategy is Manual: an instance moves when it is promoted.",
    "AllAtOnce": "The strategy is AllAtOnce: all instances move at the same time.",
}
CURRENT: Final[Mapping[str, str]] = {
    RolloutPhase.PAUSED: "paused",
    RolloutPhase.STOPPED: "stopped",
    RolloutPhase.ROLLING_BACK: "rolled back",
    RolloutPhase.ROLLED_BACK: "rolled back",
}
"""The state of the current wave by phase; otherwise `now`."""
ORDER: Final = (RowState.FAILED, RowState.STOPPED, RowState.PROGRESSING, RowState.OBSOLETE)
"""Instances in these states come first."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownWave:
    """One wave of a rollout."""

    name: str
    selection: str
    """The instances that belong to it."""
    state: str
    """`complete`, `later`, or the state of the current one: `now`, `paused`, `stopped`, `rolled back`."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ReportedInstance:
    """An instance that failed, or that does not follow, with the cause."""

    path: str
    title: str
    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WaveGate:
    """A gate after one wave, and the decision about it."""

    title: str
    state: str
    decided: str
    """Who decided what, when and why; "" if no user has."""
    commands: tuple[str, ...]
    """The commands that decide about it, if the rollout waits for it."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionSummary:
    """A StackDefinition and its rollout."""

    path: str
    name: str
    kind: str
    state: RowState
    phase: str
    revision: str
    """`7`, or `6 → 7` during a rollout; "" before the first."""
    instances: int
    updated: int
    """Instances that have the newest revision."""
    counts: str
    """`2 ready, 1 failed, 4 waiting`."""
    wave: str
    message: str
    failures: tuple[ReportedInstance, ...]
    held: tuple[ReportedInstance, ...]
    gates: tuple[WaveGate, ...]
    waves: tuple[ShownWave, ...]
    strategy: str
    """What a rollout without waves does; "" for one with waves."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownInstance:
    """An instance, and the revision of the definition that it has."""

    stack: ShownStack
    revision: str


def make_path(definition: DefinitionState) -> str:
    """Return the address of its page under the root."""
    return f"{shown_stack.make_word(STACK_DEFINITION)}/{definition.name}"


def find_path(kind: Kind) -> str:
    """Return the address of the page of a kind's StackDefinition; "" for our own kinds."""
    definition = f"{kind.plural}.{kind.group}"
    return "" if kind.group == names.GROUP else f"{shown_stack.make_word(STACK_DEFINITION)}/{definition}"


def describe(definition: DefinitionState) -> DefinitionSummary:
    """Describe a StackDefinition."""
    rollout = definition.rollout
    return DefinitionSummary(
        path=make_path(definition),
        name=safe_text.one_line(definition.name),
        kind=safe_text.one_line(object_fields.text(definition.raw, "spec", "names", "kind")),
        state=find_state(definition),
        phase=safe_text.one_line(definition.phase or definition.ready.reason or "New"),
        revision=describe_revision(definition),
        instances=object_fields.number(definition.raw, "status", "instances") or 0,
        updated=object_fields.number(definition.raw, "status", "updated") or 0,
        counts=", ".join(
            f"{count} {key}"
            for key in ("ready", "failed", "waiting", "held")
            if (count := object_fields.number(rollout, key))
        ),
        wave=safe_text.one_line(object_fields.text(rollout, "wave")),
        message=safe_text.clean(definition.message),
        failures=list_reported(definition, "instances"),
        held=list_reported(definition, "heldInstances"),
        gates=tuple(describe_gate(definition, gate) for gate in definition.gates),
        waves=list_waves(definition),
        strategy=NO_WAVES.get(find_strategy(definition), ""),
    )


def find_state(definition: DefinitionState) -> RowState:
    """Return the state of a StackDefinition in the words of resources."""
    if definition.is_deleting:
        return RowState.OBSOLETE
    if definition.ready.is_true:
        return RowState.READY
    if definition.phase == RolloutPhase.PAUSED or definition.ready.reason == DefinitionReason.WAITING_FOR_APPROVAL:
        return RowState.STOPPED
    return RowState.FAILED if definition.is_stalled else RowState.PROGRESSING


def describe_revision(definition: DefinitionState) -> str:
    """Return the newest revision, and the last complete one during a rollout."""
    newest = object_fields.number(definition.raw, "status", "revision") or 0
    if not newest:
        return ""
    return f"{definition.completed} → {newest}" if definition.completed not in (0, newest) else str(newest)


def describe_gate(definition: DefinitionState, gate: ShownGate) -> WaveGate:
    """Describe a gate of the rollout."""
    claim = rollouts.find_claim(definition, gate.digest)
    is_waiting = gate.state == GateState.WAITING and claim is None
    digits = gate.digest[: names.PLAN_DIGITS]
    verbs = ("approve", "reject") if is_waiting else ()
    return WaveGate(
        title=safe_text.one_line(f"{gate.name} after wave {gate.wave}"),
        state=safe_text.one_line(gate.state),
        decided=plan_output.describe_approval(claim) if claim is not None else "",
        commands=tuple(
            safe_text.one_line(f"kubectl stack rollout {verb} {shlex.quote(definition.name)} {shlex.quote(digits)}")
            for verb in verbs
        ),
    )


def find_strategy(definition: DefinitionState) -> str:
    """Return how a change reaches the instances."""
    return object_fields.text(definition.raw, "spec", "rollout", "strategy") or PROGRESSIVE


def list_waves(definition: DefinitionState) -> tuple[ShownWave, ...]:
    """Return the waves in order; none if the strategy has none."""
    if find_strategy(definition) in NO_WAVES:
        return ()
    stated = object_fields.entries(definition.raw, "spec", "rollout", "waves")
    waves = [(object_fields.text(each, "name"), describe_selection(each)) for each in stated]
    waves.append((REST, "all other instances"))
    current = object_fields.text(definition.rollout, "wave")
    if current == UNHEALTHY_BEFORE:
        waves.append((UNHEALTHY_BEFORE, "instances that were unhealthy before the rollout"))
    known = [name for name, _ in waves]
    at = known.index(current) if current in known else len(known) if definition.phase == RolloutPhase.COMPLETE else 0
    current_state = CURRENT.get(definition.phase, "now")
    states = [*(["complete"] * at), current_state] if definition.phase else []
    states += ["later"] * (len(waves) - len(states))
    return tuple(
        ShownWave(name=safe_text.one_line(name), selection=safe_text.one_line(selection), state=state)
        for (name, selection), state in zip(waves, states, strict=False)
    )


def describe_selection(wave: Mapping[str, Any]) -> str:
    """Return the instances of a wave: `at most 10%, with stage=canary`."""
    size = object_fields.find(wave, "size")
    labels = object_fields.mapping(wave, "select", "matchLabels")
    chosen = ", ".join(f"{key}={value}" for key, value in labels.items())
    return ", ".join(filter(None, [f"at most {size}" if size is not None else "", f"with {chosen}" if chosen else ""]))


def list_reported(definition: DefinitionState, key: str) -> tuple[ReportedInstance, ...]:
    """Return the instances that the status lists under that key."""
    found = []
    for each in object_fields.entries(definition.rollout, key):
        namespace, name = object_fields.text(each, "namespace"), object_fields.text(each, "name")
        found.append(
            ReportedInstance(
                path=f"{definition.name}/{parse.quote(namespace, safe='')}/{parse.quote(name, safe='')}",
                title=safe_text.one_line(f"{namespace}/{name}"),
                message=safe_text.clean(object_fields.text(each, "message")),
            )
        )
    return tuple(found)


def describe_instances(instances: Iterable[StackState]) -> list[ShownInstance]:
    """Describe instances, those that need attention first."""
    shown = [
        ShownInstance(
            stack=shown_stack.describe(each),
            revision=str(object_fields.number(each.status, "definitionRevision") or ""),
        )
        for each in instances
    ]
    rank = {state: place for place, state in enumerate(ORDER)}
    return sorted(shown, key=lambda each: rank.get(each.stack.state, len(rank)))


def describe_effect(definition: DefinitionState, verb: str) -> str:
    """Return what a verb does to this rollout; verb: of `kubectl stack rollout`."""
    updated, waiting = (object_fields.number(definition.rollout, key) or 0 for key in ("updated", "waiting"))
    revision, completed = definition.revision, definition.completed
    match verb:
        case "pause" if definition.phase in UNDER_WAY:
            kept = f"{waiting} instances keep their revision until the rollout is resumed"
            return f"{kept}; {updated} keep revision {revision}."
        case "resume":
            return f"{waiting} instances wait for revision {revision}."
        case "promote":
            wave = safe_text.one_line(object_fields.text(definition.rollout, "wave"))
            return f"The pause after wave {wave} ends now. {waiting} instances still wait for revision {revision}."
        case "undo":
            return f"{updated} instances return from revision {revision} to revision {completed}."
        case "restart":
            return f"Revision {revision} is rolled out again, from the first wave."
        case "force":
            return f"{waiting} waiting instances get revision {revision} as well, even if instances fail."
        case _:
            return ""
