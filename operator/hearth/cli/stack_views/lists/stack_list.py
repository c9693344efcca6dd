"""The list of Stacks, as rows and as objects for `-o json` and `-o yaml`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from hearth.cli.stack_views import ages, safe_text
from hearth.cli.stack_views.stack_state import NamedObject, StackState
from hearth.cli.stack_views.text_table import Cell
from hearth.model import names, object_fields
from hearth.model.child import Object
from hearth.model.phases import ConditionType
from hearth.model.text import redaction
from hearth.plan.state import condition_types

HEADER: Final = ("NAME", "PHASE", "READY", "RESOURCES", "REVISION", "STATE", "AGE", "MESSAGE")
"""The annotation repeats the whole spec."""


def make_header(*, with_namespace: bool) -> list[str]:
    """Return the titles of the columns."""
    return [*(["NAMESPACE"] if with_namespace else []), *HEADER]


def make_row(stack: StackState, *, now: float, with_namespace: bool) -> list[Cell]:
    """Return the cells of one Stack."""
    ready = stack.ready.status or "Unknown"
    phase_color = "green" if stack.is_ready else "red" if stack.is_stalled else "yellow"
    texts: list[Cell] = [
        (safe_text.one_line(stack.argument), ""),
        (safe_text.one_line(stack.phase) or "New", phase_color),
        (safe_text.one_line(ready), phase_color),
        (safe_text.one_line(stack.summary), ""),
        ("" if stack.revision is None else str(stack.revision), ""),
        (", ".join(find_words(stack)), "yellow"),
        (ages.describe(stack.created, now=now), ""),
        (safe_text.first_line(redact(stack, stack.ready.message)), "red" if stack.is_stalled else ""),
    ]
    return [(safe_text.one_line(stack.namespace), ""), *texts] if with_namespace else texts


def find_words(stack: StackState) -> Iterator[str]:
    """Yield facts, as words, to show in addition to the phase."""
    words, true_conditions = object_fields.text(stack.status, "state").split(", "), stack.true_conditions
    if stack.is_deleting:
        yield "deleting"
    yield from condition_types.find_state_words(
        [type_ for type_ in ConditionType if type_ in true_conditions],
        is_paused=stack.is_paused,
        is_suspended=stack.is_suspended,
        is_rolled_back=stack.is_rolled_back,
        rejection=next((word for word in words if word in (condition_types.REJECTED, condition_types.NOT_APPLIED)), ""),
    )


def sort(stacks: Iterable[StackState]) -> list[StackState]:
    """Sort by namespace and name; in each namespace, ResourceGroups after Stacks, then instances by their kind."""
    return sorted(
        stacks,
        key=lambda stack: (stack.namespace, stack.is_group, stack.kind.key if stack.is_instance else "", stack.name),
    )


def find_hidden(stack: StackState) -> list[str]:
    """Return the texts of sensitive parameters that the spec itself contains."""
    rules = object_fields.mapping(stack.spec, "template", "parameters")
    values = object_fields.mapping(stack.spec, "parameters")
    return [
        text
        for name, rule in rules.items()
        if object_fields.find(rule, "sensitive") is True
        for text in (
            *redaction.find_texts(values.get(name)),
            *redaction.find_texts(object_fields.find(rule, "default")),
        )
    ]


def hide_unknown(stack: StackState) -> Object:
    """Return the object without the values in `spec.parameters` if another object declares which parameters are
    sensitive.

    An instance contains no sensitive value.
    """
    values = object_fields.mapping(stack.spec, "parameters")
    if not values or "template" in stack.spec or stack.is_instance:
        return stack.raw
    hidden = dict.fromkeys(values, redaction.SENSITIVE)
    return {**stack.raw, "spec": {**stack.spec, "parameters": hidden}}


def redact(stack: StackState, text: str) -> str:
    """Return a text of the Stack without the sensitive values in its spec."""
    return redaction.redact(text, find_hidden(stack)) if text else text


def clean_metadata(found: NamedObject) -> Object:
    """Return the metadata of an object without managed fields and kubectl's copy of the whole object."""
    metadata = dict(object_fields.mapping(found.raw, "metadata"))
    metadata.pop("managedFields", None)
    annotations = {key: value for key, value in found.annotations.items() if key != names.KUBECTL_LAST_APPLIED}
    return metadata | ({"annotations": annotations} if "annotations" in metadata else {})


def to_output(stack: StackState) -> Object:
    """Return the Stack for programs: as the API server stores it, without managed fields and sensitive values."""
    output = {**hide_unknown(stack), "metadata": clean_metadata(stack)}
    hidden = find_hidden(stack)
    return redaction.redact_within(output, hidden) if hidden else output


def to_list(stacks: Sequence[StackState]) -> Object:
    """Return the list for programs, in kubectl's form."""
    items: list[Any] = [to_output(stack) for stack in stacks]
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}
