"""Compares the result of a step with the expectations of a test, and describes each difference in a sentence.

The caller redacts the sentences.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.cli.stack_views.stack_tests.stack_test_models import ExpectationModel, StepModel
from hearth.model import members, object_fields
from hearth.model.child import Object
from hearth.model.text import redaction
from hearth.preview.stack_trial import TrialResult
from hearth.template.text import error_hints

ABSENT: Final = object()
LONGEST: Final = 300
"""Characters of a value in a message."""
READY: Final = ExpectationModel(ready=True)
NAMING: Final = ("objects", "exist", "absent", "order", "deleted", "same", "replaced")
"""Expectations that name resources."""
DECIDING: Final = ("phase", "ready", "reason", "message", "rejected")
"""Expectations that determine whether the Stack must become ready."""


def find_differences(
    expectation: ExpectationModel | None, result: TrialResult, before: Mapping[str, Object]
) -> Iterator[str]:
    """Yield the differences. before: the objects by resource before the step."""
    expected = expectation or READY
    if all(getattr(expected, word) is None for word in DECIDING):
        expected = expected.model_copy(update={"ready": True})
    show = make_writer(result)
    if result.is_endless:
        yield "the same objects are replaced repeatedly; correct the template"
    yield from find_wrong_rejection(expected, result)
    if expected.rejected is None:
        if result.rejection:
            # Everything else follows from it.
            return
        yield from find_wrong_condition(expected, result)
    found = object_fields.mapping(result.status, "outputs")
    for name, value in (expected.outputs or {}).items():
        yield from compare(value, found.get(name, ABSENT), f"output {name}", show, known=found)
    yield from find_wrong_objects(expected, result, show)
    yield from find_wrong_order(expected, result)
    yield from find_wrong_identity(expected, result, before)


def find_unknown(step: StepModel, known: Collection[str]) -> Iterator[str]:
    """Yield names of resources without an entry in the template and without an object. known: excludes members of
    collections.
    """
    expected = step.expect or READY
    named = {
        "play": [*(step.play or ())],
        "fail.resource": [step.fail.resource] if step.fail is not None and step.fail.resource else [],
        **{f"expect.{word}": getattr(expected, word) or () for word in NAMING},
    }
    for place, resources in named.items():
        for name in resources if known else ():
            if name not in known and members.root_of(name) not in known:
                yield f"{place}: the template has no resource {name}{error_hints.did_you_mean(name, known)}"


def make_writer(result: TrialResult) -> Callable[[Any], str]:
    """Return the function that writes a value for a message, without sensitive values."""

    def write(value: Any) -> str:
        text = json.dumps(redaction.redact_within(value, result.hidden), ensure_ascii=False, default=str)
        return text if len(text) <= LONGEST else text[:LONGEST] + "…"

    return write


def find_wrong_rejection(expected: ExpectationModel, result: TrialResult) -> Iterator[str]:
    """Yield differences from the expected rejection of the definition."""
    mistakes = [str(each) for each in result.mistakes]
    reasons = mistakes or ([result.rejection] if result.rejection else [])
    if expected.rejected is None:
        for each in reasons:
            yield f"the definition is rejected: {each}"
        return
    for part in expected.rejected:
        if not reasons:
            yield f"the definition is accepted, expected a rejection with {part!r}"
        elif not any(part in each for each in reasons):
            yield f"the definition is rejected, but not with {part!r}: {'; '.join(reasons)}"


def find_wrong_condition(expected: ExpectationModel, result: TrialResult) -> Iterator[str]:
    """Yield differences of the phase and the condition Ready. The first one has the message of the condition."""
    conditions = object_fields.entries(result.status, "conditions")
    ready = next((each for each in conditions if each.get("type") == "Ready"), {})
    message = object_fields.text(ready, "message")
    differences = []
    if expected.phase not in (None, result.phase):
        differences.append(f"phase is {result.phase}, expected {expected.phase}")
    if expected.ready is not None and expected.ready != (ready.get("status") == "True"):
        word = "not ready, expected ready" if expected.ready else "ready, expected not ready"
        differences.append(f"the Stack is {word}")
    if expected.reason is not None and expected.reason != ready.get("reason"):
        differences.append(f"reason is {ready.get('reason')}, expected {expected.reason}")
    if expected.message is not None and expected.message not in object_fields.text(ready, "message"):
        differences.append(f"the message of Ready does not contain {expected.message!r}")
    for at, each in enumerate(differences):
        yield f"{each}: {message}" if at == 0 and message else each


def find_wrong_objects(expected: ExpectationModel, result: TrialResult, show: Callable[[Any], str]) -> Iterator[str]:
    """Yield differences of the objects, and of their number."""
    for name, fields in (expected.objects or {}).items():
        if name not in result.objects:
            yield f"{name} has no object"
            continue
        yield from compare(fields, result.objects[name], "", show, where=name)
    if expected.exist is not None:
        missing = [name for name in expected.exist if name not in result.objects]
        extra = sorted(set(result.objects) - set(expected.exist))
        if missing:
            yield f"exist: {error_hints.list_words(missing)} without an object"
        if extra:
            yield f"exist: {error_hints.list_words(extra)} with an object, which the test does not list"
    for name in expected.absent or ():
        if name in result.objects:
            yield f"{name} has an object, expected none"


def compare(
    expected: Any,
    found: Any,
    path: str,
    show: Callable[[Any], str],
    *,
    where: str = "",
    known: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Yield the differences between an expected and an actual value. known: neighboring names, for a hint."""
    place = ": ".join(filter(None, (where, path)))
    if expected is None:
        if found is not ABSENT and found is not None:
            yield f"{place} is {show(found)}, expected none"
    elif found is ABSENT:
        hint = error_hints.did_you_mean(path.rpartition(".")[2].removeprefix("output "), known or {})
        yield f"{place} is absent, expected {show(expected)}{hint}"
    elif isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key, value in expected.items():
            way = f"{path}.{key}".lstrip(".")
            yield from compare(value, found.get(key, ABSENT), way, show, where=where, known=found)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for at, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from compare(one, other, f"{path}[{at}]", show, where=where)
    elif expected != found or isinstance(expected, bool) is not isinstance(found, bool):
        yield f"{place} is {show(found)}, expected {show(expected)}"


def find_wrong_order(expected: ExpectationModel, result: TrialResult) -> Iterator[str]:
    """Yield a wrong order of applies or deletions."""
    applied = list(dict.fromkeys(result.applied))
    if expected.order is not None:
        missing = [name for name in expected.order if name not in applied]
        present = [name for name in applied if name in expected.order]
        if missing:
            hint = error_hints.did_you_mean(missing[0], applied)
            yield f"order: {error_hints.list_words(missing)} not applied in this step{hint}"
        elif present != expected.order:
            yield f"order is {write_order(present)}, expected {write_order(expected.order)}"
    deleted = list(dict.fromkeys(result.deleted))
    if expected.deleted is not None and deleted != expected.deleted:
        yield f"deleted is {write_order(deleted)}, expected {write_order(expected.deleted)}"


def write_order(names: Sequence[str]) -> str:
    """Return names in their order."""
    return ", ".join(names) or "nothing"


def find_wrong_identity(expected: ExpectationModel, result: TrialResult, before: Mapping[str, Object]) -> Iterator[str]:
    """Yield objects that were unexpectedly replaced or kept."""
    for names, is_same in ((expected.same, True), (expected.replaced, False)):
        for name in names or ():
            old, new = (object_fields.text(each.get(name), "metadata", "uid") for each in (before, result.objects))
            if not old or not new:
                yield f"{name} has no object {'before' if not old else 'after'} this step"
            elif (old == new) is not is_same:
                yield f"{name} has {'a different object than' if is_same else 'the same object as'} before this step"
