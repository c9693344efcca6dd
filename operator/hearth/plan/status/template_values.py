"""Evaluates the outputs and the conditions that a template defines for the status."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model import limits, tenancy
from hearth.model.child import Child, Object
from hearth.plan.resource import desired_objects
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import requirements
from hearth.plan.state.read_access import Access
from hearth.plan.state.resource_status import ResourceStatus
from hearth.plan.status.conditions import Judgement
from hearth.template.blueprint import Evaluable, EvaluationError, Known, Outcome, Pending
from hearth.template.cel import expressions
from hearth.template.parser.template_parser import CONDITION_REASON
from hearth.template.text import bounds, error_hints


@dataclass(slots=True)
class Outputs:
    """Evaluated outputs."""

    values: Object = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    """Errors of outputs that the status cannot show. Pending outputs have no message: their resources have one."""
    size: int = 0
    """Bytes of all values."""

    def put(self, name: str, value: Any) -> None:
        """Add a value. Raises TooLarge."""
        size = bounds.measure(value, depth=limits.OUTPUT_DEPTH)
        bounds.refuse_large(size, limits.OUTPUT_BYTES, what="is")
        bounds.refuse_large(self.size + size, limits.OUTPUTS_BYTES, what="with the outputs before it is")
        self.size += size
        self.values[name] = value


def evaluate(planner: StackPlanner) -> Outputs:
    """Evaluate all outputs."""
    outputs = Outputs()
    for name, output in planner.blueprint.outputs.items():
        outcome = evaluate_readable(planner, output)
        if isinstance(outcome, EvaluationError):
            outputs.wrong.append(f"outputs.{name}: {outcome.message}"[: limits.MISTAKE_LENGTH])
        elif isinstance(outcome, Known) and outcome.value is not None:
            try:
                outputs.put(name, outcome.value)
            except bounds.TooLarge as error:
                outputs.wrong.append(f"outputs.{name}: {error}")
    return outputs


def judge_conditions(planner: StackPlanner) -> Iterator[Judgement]:
    """Judge the conditions that the template defines."""
    for type_, fields in planner.blueprint.status_conditions.items():
        found = {name: evaluate_readable(planner, each) for name, each in fields.items()}
        outcome = found["status"]
        if isinstance(outcome, EvaluationError):
            yield Judgement(type_, "Unknown", "EvaluationFailed", outcome.message[: limits.CONDITION_TEXT])
        elif not isinstance(outcome, Known) or outcome.value is None:
            yield Judgement(type_, "Unknown", "Pending", "a value that the condition reads does not exist yet")
        elif not isinstance(outcome.value, bool):
            wrong = f"must be true or false, found {error_hints.describe(outcome.value)}"
            yield Judgement(type_, "Unknown", "EvaluationFailed", wrong)
        else:
            reason, message = (find_text(found.get(name)) for name in ("reason", "message"))
            if not CONDITION_REASON.fullmatch(reason):
                reason = type_ if outcome.value else f"Not{type_}"
            yield Judgement(type_, "True" if outcome.value else "False", reason, message[: limits.CONDITION_TEXT])


def find_text(outcome: Outcome | None) -> str:
    """Return the text of a condition, "" if it has no value."""
    return outcome.value if isinstance(outcome, Known) and isinstance(outcome.value, str) else ""


def evaluate_readable(planner: StackPlanner, value: Evaluable) -> Outcome:
    """Evaluate a value with the objects that the account of the Stack is allowed to get."""
    if planner.reader.is_limited and (unreadable := find_unreadable(planner, value.reads)):
        is_denied = planner.reader.find(unreadable) is Access.DENIED
        return (
            EvaluationError(path="", message=planner.reader.explain(unreadable)) if is_denied else Pending(missing=())
        )
    return value.evaluate({read: find_value(planner, read) for read in value.reads})


def find_value(planner: StackPlanner, name: str) -> Any:
    """Find the value that an expression reads under a name of the template: the object, or the objects of all members."""
    if (read := planner.externals.get(name)) is not None:
        return desired_objects.enlarge(read.fields)
    collection = planner.blueprint.collections.get(name)
    if collection is None:
        fields = find_fields(planner, name)
        return expressions.enlarge(fields) if fields is not None else None
    readable = (find_readable_status(planner, member) for member in collection.members)
    return planner.find_collection(name).list_with_former(readable)


def find_fields(planner: StackPlanner, resource: str) -> Mapping[str, Any] | None:
    """Find the fields of a resource's object; for finished, deleted work the fields that were kept."""
    status = find_readable_status(planner, resource)
    return requirements.find_fields(status) if status is not None else None


def find_readable_status(planner: StackPlanner, resource: str) -> ResourceStatus | None:
    """Find the status of a resource, without an object that is beyond the Stack's boundary."""
    status = planner.statuses.get(resource)
    is_beyond = status is not None and status.child is not None and status.reason == tenancy.REASON
    return dataclasses.replace(status, child=None) if status is not None and is_beyond else status


def find_readable(planner: StackPlanner, resource: str) -> Child | None:
    """Find the object of a resource, unless it is beyond the Stack's boundary."""
    status = find_readable_status(planner, resource)
    return status.child if status is not None else None


def find_unreadable(planner: StackPlanner, names: Iterable[str]) -> Child | None:
    """Find an object that the account of the Stack is not allowed to get, or whose access is not known yet.

    names: as expressions read them.
    """
    collections = planner.blueprint.collections
    resources = (each for name in names for each in (collections[name].members if name in collections else (name,)))
    found = (child for each in resources if (child := find_readable(planner, each)) is not None)
    return next((child for child in found if planner.reader.find(child) is not Access.GRANTED), None)
