"""Compares a Stack at rest with the model: its status and all of its objects. Pure."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from hearth.model import names
from hearth.model.child import Object
from support.checks import deletion_invariants, expectations, invariants, members, template_verification
from support.stateful import target_model
from support.stateful.random_templates import CLAIM
from support.stateful.target_model import Mind


def key_of(template: Mapping[str, Any]) -> str:
    """The key of a definition in the model."""
    return json.dumps(template, sort_keys=True)


@functools.lru_cache(maxsize=1024)
def resources_of(key: str) -> dict[str, Any]:
    """The resources of a definition, with collections expanded to members."""
    return members.expand({"template": json.loads(key)}) if key else {}


@functools.cache
def must_fail(key: str) -> bool:
    """Whether a definition can never be reached, because one of its resources always fails."""
    return any("fails" in (each["manifest"].get("spec") or {}) for each in resources_of(key).values())


@functools.cache
def may_fail(key: str) -> bool:
    """Whether a definition may be unreachable from the existing objects."""
    return must_fail(key) or any(is_locked(each) for each in resources_of(key).values())


def is_locked(resource: Mapping[str, Any]) -> bool:
    """Whether a resource has an immutable value and must not be replaced."""
    spec = resource["manifest"].get("spec") or {}
    policy = (resource.get("updatePolicy") or {}).get("replace", "Never")
    # Two objects cannot have one name at the same time.
    is_never = policy == "Never" or (policy == "CreateFirst" and "name" in (resource["manifest"].get("metadata") or {}))
    return is_never and ("replaceValue" in spec or "storageClassName" in spec)


def find_left(stack: Object | None, found: list[Object], revisions: Mapping[int, str]) -> list[str]:
    """Leftovers of a deleted Stack."""
    if stack is not None and stack["spec"].get("paused"):
        return []
    left = [f"{raw['metadata']['name']} is left of a deleted Stack" for raw in found]
    left += [f"revision {number} is left of a deleted Stack" for number in revisions]
    return left if stack is None else [*left, "the deleted Stack is still there"]


def choose(stack: Object, possible: Iterable[Mind], revisions: Mapping[int, str]) -> set[Mind]:
    """The states of the model that match the Stack's reported revision."""
    status = expectations.status_of(stack)
    target = status.get("target") or {}
    number = target.get("revision", 0)
    wants = revisions.get(number, "") if number else target_model.NOTHING
    reason = expectations.find_condition(stack, "Ready").get("reason")
    is_refused = reason in {"InvalidTemplate", "RevisionNotFound", "RevisionUnavailable"}
    is_whole = str(status.get("phase")).endswith("Complete")
    is_failed = str(status.get("phase")).endswith("Failed") and not is_refused
    return {
        mind
        for mind in possible
        if mind.cause == target.get("cause", "")
        and mind.last == revisions.get(status.get("lastCompletedRevision") or 0)
        and mind.wants == wants
        and mind.is_refused == is_refused
        and (mind.is_reached or not is_whole)
        and (not is_failed or may_fail(mind.wants))
    }


def find_wrong(
    stack: Object, found: list[Object], possible: set[Mind], revisions: Mapping[int, str], *, is_restarted: bool
) -> list[str]:
    """All differences between a Stack at rest and the model.

    is_restarted: whether the operator died since the Stack was last complete.
    """
    status = expectations.status_of(stack)
    if status.get("observedGeneration") != stack["metadata"]["generation"]:
        return ["the status speaks of an older spec"]
    chosen = choose(stack, possible, revisions)
    if not chosen:
        target = status.get("target") or {}
        reported = sorted({describe(mind, revisions) for mind in possible})
        return [f"it follows {target.get('cause')} {target.get('revision')}; it should be one of {reported}"]
    is_paused = bool(stack["spec"].get("paused"))
    is_said = expectations.find_condition(stack, "Paused").get("status") == "True"
    if is_paused != is_said:
        return [f"Paused is {is_said}"]
    if is_paused:
        return []
    mind = next(iter(chosen))
    if mind.is_refused:
        return list(find_wrong_refused(stack))
    if str(status["phase"]).endswith("Complete"):
        return list(find_wrong_complete(stack, found, mind))
    return list(find_wrong_failed(stack, found, mind, find_protected(stack, revisions) if is_restarted else ()))


def find_protected(stack: Object, revisions: Mapping[int, str]) -> list[str]:
    """The definitions that the operator protects until the target is reached.

    After its death it does not know whether an earlier target was reached, and also protects that one, because the
    objects do not show it. Only then there are more than in the model.
    """
    state = expectations.status_of(stack).get("controllerState") or {}
    return [revisions[number] for number in state.get("protectedRevisions") or () if number in revisions]


def describe(mind: Mind, revisions: Mapping[int, str]) -> str:
    """A state of mind in words."""
    number = next((str(number) for number, key in revisions.items() if key == mind.wants), "none")
    words = ["reached" if mind.is_reached else "not reached", *(["refused"] if mind.is_refused else [])]
    return f"{mind.cause} {number if mind.wants else 0} ({', '.join(words)})"


def find_wrong_refused(stack: Object) -> Iterator[str]:
    """Differences in the status of a Stack whose spec is rejected."""
    if not str(stack["status"]["phase"]).endswith("Failed"):
        yield f"it was refused, and the phase is {stack['status']['phase']}"
    if expectations.find_condition(stack, "Stalled").get("status") != "True":
        yield "it was refused, and Stalled is not True"


def find_wrong_complete(stack: Object, found: list[Object], mind: Mind) -> Iterator[str]:
    """Check that a complete Stack is complete in every detail."""
    phase, wants = stack["status"]["phase"], resources_of(mind.wants)
    if (phase == "RollbackComplete") != (mind.cause != target_model.SPEC):
        yield f"the phase is {phase}, and what is followed is {mind.cause}"
    is_unasked = mind.cause == target_model.AUTOMATIC
    answers = {name: expectations.find_condition(stack, name).get("status") for name in ("Ready", "Stalled")}
    expected = {"Ready": "False", "Stalled": "True"} if is_unasked else {"Ready": "True", "Stalled": None}
    if answers != expected and answers != {**expected, "Stalled": expected["Stalled"] or "False"}:
        yield f"the conditions are {answers}"
    kept = [raw for raw in found if not (is_unasked and is_spared(raw, wants))]
    yield from template_verification.find_wrong(
        {"template": {"resources": wants}}, stack, expectations.by_resource(kept)
    )


def is_spared(raw: Object, wants: Mapping[str, Any]) -> bool:
    """Whether an automatic rollback keeps the object."""
    if raw["kind"] != CLAIM:
        return False
    resource = wants.get(invariants.whose(raw)[1])
    if resource is None or resource["manifest"]["kind"] != CLAIM:
        return True
    wanted = resource["manifest"]["spec"]["storageClassName"]
    return bool(raw["spec"]["storageClassName"] != wanted)


def find_wrong_failed(stack: Object, found: list[Object], mind: Mind, protected: Collection[str] = ()) -> Iterator[str]:
    """A failed Stack reports the failure, has all resources that do not depend on it, and no unwanted objects."""
    phase, wants = str(stack["status"]["phase"]), resources_of(mind.wants)
    if not phase.endswith("Failed"):
        yield f"nothing moves, and the phase is {phase}"
        return
    if expectations.find_condition(stack, "Stalled").get("status") != "True":
        yield "it failed, and Stalled is not True"
    failing = {problem["resource"] for problem in stack["status"].get("problems") or ()}
    for name in failing:
        spec = (wants.get(name) or {"manifest": {}})["manifest"].get("spec") or {}
        if name not in wants or not ("fails" in spec or is_locked(wants[name])):
            yield f"{name} is named as a problem and has none"
    broken = find_broken(wants, failing)
    by_resource = expectations.by_resource(found)
    for name in wants.keys() - broken:
        stated = template_verification.Scope(values={}).evaluate(wants[name]["manifest"])
        fitting = [
            raw
            for raw in by_resource.get(name, [])
            if deletion_invariants.is_ready(raw) and not deletion_invariants.find_wrong(stated, wants[name], raw)
        ]
        if len(fitting) < 1:
            yield f"{name} depends on no failure, and is not as it should be"
    claimed = {name for each in (mind.wants, mind.last, mind.previous, *protected) for name in resources_of(each or "")}
    for name in by_resource.keys() - claimed:
        if not any(is_required(raw, found) for raw in by_resource[name]) and not is_data(by_resource[name]):
            yield f"{name} has an object, which is neither wanted nor used"


def is_data(found: list[Object]) -> bool:
    """Whether these hold data, so that an automatic rollback may have left them."""
    return all(raw["kind"] == CLAIM for raw in found)


def is_required(raw: Object, found: list[Object]) -> bool:
    """Whether another object was evaluated from this one."""
    _, resource, number, _ = invariants.which(raw)
    return any(
        f"{resource}/{number}" in invariants.annotations_of(each).get(names.ANNOTATION_REQUIRES, "").split(",")
        for each in found
        if each is not raw
    )


def find_broken(wants: Mapping[str, Any], failing: set[str]) -> set[str]:
    """The resources that fail, need a failing one, or never get their turn in a rolling update."""
    stuck = {members.all_of(name) for name in failing if is_rolling(wants.get(name) or {})}
    broken = failing | {name for name in wants if members.all_of(name) in stuck}
    while True:
        more = {name for name, each in wants.items() if deletion_invariants.find_needs(each) & broken} - broken
        if not more:
            return broken
        broken |= more


def is_rolling(resource: Mapping[str, Any]) -> bool:
    """Whether the members of a collection change in batches."""
    return "rolling" in (resource.get("updatePolicy") or {})


def count_most_applies(revisions: Mapping[int, str], cause: str) -> Callable[[str], int]:
    """Maximum number of applies of a resource for one edit: one, plus one for a refused change, plus one for a
    rollback.
    """

    def most(name: str) -> int:
        has_lock = any(
            "replaceValue" in (resources_of(key).get(name, {}).get("manifest", {}).get("spec") or {})
            or "storageClassName" in (resources_of(key).get(name, {}).get("manifest", {}).get("spec") or {})
            for key in revisions.values()
        )
        return (2 if has_lock else 1) * (2 if cause == target_model.AUTOMATIC else 1)

    return most
