"""Compares the observed state with the expectations of a story. Pure; messages contain the actual value.

The objects come from `story_runner`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hearth.model.child import Object
from support.checks import members


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The observed state of one Stack at one moment."""

    stack: Object | None
    children: Mapping[str, Sequence[Object]]
    """All objects with the Stack's label, by resource."""
    before: Mapping[str, str]
    """The UID of the child before the step, by resource."""
    requests: Counter[str]
    """The operator's requests since this step began."""
    events: Sequence[str]
    """The reasons of the Events that the operator has posted since."""
    plans: Sequence[Object] = ()
    """The StackPlans of the Stack, the oldest first."""
    others: Mapping[str, Object | None]
    """The objects that the step checks by `kind/name`."""


Judge: TypeAlias = Callable[[Any, Seen], Iterator[str]]


def find_wrong(expected: Mapping[str, Any], seen: Seen) -> list[str]:
    """One sentence for each unmet expectation."""
    return [f"{word}: {text}" for word, wanted in expected.items() for text in JUDGES[word](wanted, seen)]


def find_condition(stack: Object | None, name: str) -> Mapping[str, Any]:
    """The condition of that type; empty if it does not exist."""
    conditions = status_of(stack).get("conditions", ())
    return next((each for each in conditions if each["type"] == name), {})


def is_left_drifted(seen: Seen) -> bool:
    """Whether the Stack reports that it is paused and that its objects differ from the template."""
    return seen.stack is not None and all(
        find_condition(seen.stack, name).get("status") == "True" for name in ("Paused", "Drifted")
    )


def status_of(stack: Object | None) -> Mapping[str, Any]:
    """The Stack's status; empty if it does not exist or has no status."""
    return (stack or {}).get("status") or {}


def equals(found: Any, wanted: Any) -> Iterator[str]:
    """Return a difference; empty if they are equal."""
    if found != wanted:
        yield f"expected {show(wanted)}, found {show(found)}"


def show(value: Any) -> str:
    """A value as a story would write it."""
    return json.dumps(value, ensure_ascii=False, default=str)


def judge_field(*path: str) -> Judge:
    def assess(wanted: Any, seen: Seen) -> Iterator[str]:
        value: Any = status_of(seen.stack)
        for key in path:
            value = value.get(key, {})
        yield from equals(value or None, wanted or None)

    return assess


def judge_phase(wanted: str, stack: Object | None) -> Iterator[str]:
    """Compare the phase for the current spec; the message includes the reason."""
    status = status_of(stack)
    if stack is not None and status.get("observedGeneration") != stack["metadata"]["generation"]:
        yield f"it says {status.get('phase')} of an older spec"
    elif status.get("phase") != wanted:
        message = find_condition(stack, "Ready").get("message")
        yield f"expected {wanted}, found {status.get('phase')} ({message})"


def judge_condition(name: str) -> Judge:
    """A judge of one condition: true, false, or a status like Unknown; a missing condition also counts as false."""

    def assess(wanted: Any, seen: Seen) -> Iterator[str]:
        found = find_condition(seen.stack, name).get("status", "False")
        word = str(wanted) if not isinstance(wanted, str) else wanted
        yield from equals(found, word)

    return assess


def judge_conditions(wanted: Mapping[str, Any], seen: Seen) -> Iterator[str]:
    """Compare conditions by type: parts of the message of a true condition, or its status; `absent`: it must not
    exist.
    """
    for name, said in wanted.items():
        found = find_condition(seen.stack, name)
        if isinstance(said, bool) or said == "absent":
            yield from (f"{name} {text}" for text in equals(found.get("status", "absent"), str(said)))
            continue
        for part in [said] if isinstance(said, str) else said:
            if found.get("status") != "True" or part not in found["message"]:
                yield f"{name}: expected {show(part)}, found {show(found.get('message', 'no such condition'))}"


def judge_reason(wanted: str, seen: Seen) -> Iterator[str]:
    yield from equals(find_condition(seen.stack, "Ready").get("reason"), wanted)


def judge_message(wanted: str | list[str], seen: Seen) -> Iterator[str]:
    """Parts of the message of `Ready`."""
    message = find_condition(seen.stack, "Ready").get("message", "")
    for part in [wanted] if isinstance(wanted, str) else wanted:
        if part not in message:
            yield f"expected {show(part)} in {show(message)}"


def judge_problems(wanted: Mapping[str, str], seen: Seen) -> Iterator[str]:
    """Compare problems by resource, with a part of each message; no other problems may exist."""
    found: dict[str, str] = {}
    for problem in status_of(seen.stack).get("problems") or ():
        found[problem["resource"]] = f"{problem['reason']}: {problem['message']}"
    yield from equals(sorted(found), sorted(wanted))
    for resource, part in wanted.items():
        if resource in found and part not in found[resource]:
            yield f"{resource}: expected {show(part)} in {show(found[resource])}"


def judge_exist(wanted: Sequence[str], seen: Seen) -> Iterator[str]:
    """The resources that have a child."""
    yield from equals(sorted(seen.children), sorted(wanted))


def judge_counts(wanted: Mapping[str, int], seen: Seen) -> Iterator[str]:
    """Compare the number of objects by resource, including objects in deletion."""
    for resource, count in wanted.items():
        for text in equals(len(seen.children.get(resource, ())), count):
            yield f"{resource}: {text}"


def judge_objects(wanted: Mapping[str, Mapping[str, Any]], seen: Seen) -> Iterator[str]:
    """Compare fields of the only child by resource, each by its path."""
    for resource, fields in wanted.items():
        found = seen.children.get(resource, ())
        if len(found) != 1:
            yield f"{resource}: expected one object, found {len(found)}"
            continue
        for text in judge_fields(fields, found[0]):
            yield f"{resource}: {text}"


def judge_fields(wanted: Mapping[str, Any], found: Object) -> Iterator[str]:
    """Fields of an object, each by its path; null: missing."""
    for path, value in wanted.items():
        for text in equals(dig(found, path), value):
            yield f"{path} {text}"


def dig(value: Any, path: str) -> Any:
    r"""The value at a dotted path, or None; a dot within a key is written as `\.`, a list item by its type or name."""
    for key in path.replace("\\.", "\0").split("."):
        if isinstance(value, list):
            items = [item for item in value if isinstance(item, dict)]
            value = next((item for item in items if key in (item.get("type"), item.get("name"))), None)
        else:
            value = value.get(key.replace("\0", ".")) if isinstance(value, dict) else None
    return value


def uid_of(resource: str, seen: Seen) -> str | None:
    """The UID of the one child of a resource."""
    found = seen.children.get(resource, ())
    return found[0]["metadata"]["uid"] if len(found) == 1 else None


def judge_same(wanted: Sequence[str], seen: Seen) -> Iterator[str]:
    """Resources whose child is the same object as before."""
    for resource in wanted:
        if uid_of(resource, seen) is None or uid_of(resource, seen) != seen.before.get(resource):
            yield f"{resource}: expected the same object as before, found another or none"


def judge_new(wanted: Sequence[str], seen: Seen) -> Iterator[str]:
    """Resources whose child is a different object than before, or the first one."""
    for resource in wanted:
        found = uid_of(resource, seen)
        if found is None or found == seen.before.get(resource):
            yield f"{resource}: expected a new object, found {'the old one' if found else 'none, or several'}"


def judge_gone(wanted: Sequence[str], seen: Seen) -> Iterator[str]:
    """Resources that no longer have an object."""
    for resource in wanted:
        if seen.children.get(resource):
            yield f"{resource}: expected no object, found {len(seen.children[resource])}"


def judge_others(wanted: Mapping[str, Mapping[str, Any] | None], seen: Seen) -> Iterator[str]:
    """Compare fields of objects outside of Stacks, by `kind/name`; null: the object must not exist."""
    for address, fields in wanted.items():
        found = seen.others.get(address)
        if fields is None or found is None:
            if (fields is None) != (found is None):
                yield f"{address}: expected {'nothing' if fields is None else 'an object'}, found otherwise"
            continue
        for text in judge_fields(fields, found):
            yield f"{address}: {text}"


def judge_requests(wanted: Mapping[str, Any], seen: Seen) -> Iterator[str]:
    """Compare the number of the operator's requests by verb: a number, or an upper limit as in `<=3`."""
    for verb, count in wanted.items():
        found = seen.requests[verb]
        limit = int(str(count).removeprefix("<="))
        if found > limit or (found != limit and not str(count).startswith("<=")):
            yield f"{verb}: expected {count}, found {found}"


def judge_events(wanted: Sequence[str], seen: Seen) -> Iterator[str]:
    """The reasons of the Events, in order."""
    yield from equals(list(seen.events), list(wanted))


def assess_stack(wanted: str | Mapping[str, Any], seen: Seen) -> Iterator[str]:
    """`gone`, or fields of the Stack object, each by its path."""
    if wanted == "gone":
        if seen.stack is not None:
            message = find_condition(seen.stack, "Ready").get("message")
            yield f"expected none, found it in {status_of(seen.stack).get('phase')} ({message})"
    elif seen.stack is None:
        yield "expected a Stack, found none"
    elif not isinstance(wanted, str):
        yield from judge_fields(wanted, seen.stack)


def judge_nothing_left(wanted: bool, seen: Seen) -> Iterator[str]:
    """No object of the Stack."""
    if wanted and seen.children:
        yield f"expected no object, found those of {sorted(seen.children)}"


def judge_plans(wanted: Sequence[str], seen: Seen) -> Iterator[str]:
    """Compare the phases of the StackPlans, the oldest first."""
    yield from equals([status_of(each).get("phase") for each in seen.plans], list(wanted))


JUDGES: Mapping[str, Judge] = {
    "phase": lambda wanted, seen: judge_phase(wanted, seen.stack),
    "ready": judge_condition("Ready"),
    "reconciling": judge_condition("Reconciling"),
    "stalled": judge_condition("Stalled"),
    "reason": judge_reason,
    "message": judge_message,
    "plans": judge_plans,
    "conditions": judge_conditions,
    "problems": judge_problems,
    "summary": judge_field("summary"),
    "revision": judge_field("revision"),
    "outputs": judge_field("outputs"),
    "exist": judge_exist,
    "counts": judge_counts,
    "objects": judge_objects,
    "same": judge_same,
    "new": judge_new,
    "gone": judge_gone,
    "others": judge_others,
    "requests": judge_requests,
    "events": judge_events,
    "stack": assess_stack,
    "nothing-left": judge_nothing_left,
}


def by_resource(children: Sequence[Object]) -> dict[str, list[Object]]:
    """Objects by the resource that their label names."""
    grouped: dict[str, list[Object]] = {}
    for raw in children:
        grouped.setdefault(members.resource_of(raw), []).append(raw)
    return grouped
