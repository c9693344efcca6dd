"""Holds a resource at its breakpoints, and from what is denied to it: looks at the step that was planned, whoever planned it.

What a step means for the resource follows from the objects that there are, never from what the Stack's action is called.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from hearth.model import names
from hearth.model.child import Child
from hearth.plan.environment.environment_rules import Action, Rule
from hearth.plan.state.resource_context import Subject
from hearth.plan.state.resource_status import Standing, State
from hearth.plan.state.steps import Apply, Delete, Step

BEFORE: dict[Action, str] = {action: f"Pre{action}" for action in Action}
AFTER: dict[Action, str] = {action: f"Post{action}" for action in Action}
HOOKS = (*BEFORE.values(), *AFTER.values())
STOPPED, RESTRICTED = "Stopped", "Restricted"
WORDS = {
    **{BEFORE[action]: f"before its {word}" for action, word in
       zip(Action, ("creation", "update", "replacement", "deletion"), strict=True)},
    **{AFTER[action]: f"after its {word}" for action, word in
       zip(Action, ("creation", "update", "replacement", "deletion"), strict=True)},
}  # fmt: skip
"""By hook where a resource stops, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What one step is for its resource; a repair is neither the beginning nor the end of anything."""

    begins: Action | None = None
    """What has not begun before the step."""
    ends: Action | None = None
    """What is done once the step was taken and its object is ready."""


NOTHING = Deed()


def hold(subject: Subject, standing: Standing) -> Standing:
    """The standing as it is under the Stack's environment."""
    if subject.gates.is_open:
        return standing
    if standing.step is None:
        return _hold_after(subject, standing)
    deed = understand(subject, standing.step)
    if deed.begins is not None:
        rule = subject.gates.rules.find_restriction(subject.name, deed.begins)
        if rule is not None:
            return _restrict(standing, rule, deed.begins)
        if subject.gates.stops(subject.name, BEFORE[deed.begins]):
            return stop(standing, BEFORE[deed.begins])
    if isinstance(standing.step, Apply):
        step = _mark(subject, standing.step, deed)
        standing = standing if step is standing.step else dataclasses.replace(standing, step=step)
    return _hold_after(subject, standing)


def understand(subject: Subject, step: Step) -> Deed:
    """What a step means for a resource that is wanted.

    Whatever is deleted for it makes room for another object. One that is made where there was one before this revision
    takes the place of the one that was deleted first, or that vanished.
    """
    if isinstance(step, Delete):
        return Deed(begins=Action.REPLACE)
    if not isinstance(step, Apply):
        return NOTHING
    if step.takes_up is not None:
        return NOTHING
    if step.uid is not None:
        is_change = not step.repairs and _is_change(_find_hash(subject, step.uid), step.hash)
        return Deed(begins=Action.UPDATE, ends=Action.UPDATE) if is_change else NOTHING
    if any(child.is_identified for child in subject.children):
        return Deed(begins=Action.REPLACE, ends=Action.REPLACE)
    if subject.name in subject.gates.known:
        return Deed(ends=Action.REPLACE)
    return Deed(begins=Action.CREATE, ends=Action.CREATE)


def stop(standing: Standing, hook: str) -> Standing:
    """The standing of a resource that stops there; what has failed goes on to say so."""
    where = f"is stopped {WORDS[hook]} ({hook})"
    if standing.state is State.FAILED:
        message = f"{standing.message}; it {where}"
        return dataclasses.replace(standing, message=message, step=None, wake_at=None, stopped_at=hook)
    return dataclasses.replace(
        standing,
        state=State.STOPPED,
        reason=STOPPED,
        message=where,
        step=None,
        wake_at=None,
        stopped_at=hook,
    )


def explain_restriction(rule: Rule, action: Action) -> str:
    """Why something is not done, and what would allow it."""
    return (
        f"{rule.place} denies {action} of {rule.resource!r}, so it is left as it is; "
        f"take that rule away{rule.home}, or what asks for it back"
    )


def _restrict(standing: Standing, rule: Rule, action: Action) -> Standing:
    message = explain_restriction(rule, action)
    if standing.is_terminal or standing.state is State.FAILED:
        message = f"{standing.message}; {message}"
    return dataclasses.replace(
        standing, state=State.FAILED, reason=RESTRICTED, message=message, step=None, wake_at=None
    )


def _hold_after(subject: Subject, standing: Standing) -> Standing:
    """The standing of a resource that is done, and whose object says where it is to stop then."""
    if not standing.is_ready or standing.child is None:
        return standing
    hook = _read_mark(subject, standing.child)
    if not hook:
        return standing
    # It is of use, whoever may use it: another object is not made in its place as if it had never been.
    subject.memory.note_ready(subject.name, standing.child.uid)
    return dataclasses.replace(stop(standing, hook), step=standing.step)


def _mark(subject: Subject, step: Apply, deed: Deed) -> Apply:
    """The step with the word on its object where the resource is to stop once it is done."""
    child = next((each for each in subject.children if each.uid == step.uid), None)
    hook = _read_mark(subject, child) if child is not None else ""
    if not hook and deed.ends is not None and subject.gates.stops(subject.name, AFTER[deed.ends]):
        hook = AFTER[deed.ends]
    if not hook:
        return step
    metadata = step.manifest["metadata"]
    annotations = {**metadata["annotations"], names.ANNOTATION_STOP: f"{hook}@{subject.gates.revision}"}
    return dataclasses.replace(step, manifest={**step.manifest, "metadata": {**metadata, "annotations": annotations}})


def _read_mark(subject: Subject, child: Child) -> str:
    """The hook at which the resource of that object stops, "" for none."""
    text = (child.fields["metadata"].get("annotations") or {}).get(names.ANNOTATION_STOP, "")
    hook, _, revision = text.partition("@")
    is_armed = revision == str(subject.gates.revision) and subject.gates.stops(subject.name, hook)
    return hook if is_armed and hook in AFTER.values() else ""


def _find_hash(subject: Subject, uid: str) -> str:
    return next((child.hash for child in subject.children if child.uid == uid), "")


def _is_change(before: str, after: str) -> bool:
    """Whether these are hashes of different definitions. One that another key made says nothing of that."""
    return before != after and before.partition(":")[0] == after.partition(":")[0]
