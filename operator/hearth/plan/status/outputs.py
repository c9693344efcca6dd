"""The outputs of a Stack in its status: those with known values that are small enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model import limits, tenancy
from hearth.model.child import Child, Object
from hearth.plan.stack.stack_plan import StackPlan
from hearth.plan.state.read_access import Access
from hearth.template.blueprint import EvaluationError, Known
from hearth.template.cel import expressions, value_sizes


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
        size = value_sizes.measure(value, depth=limits.OUTPUT_DEPTH)
        value_sizes.check(size, limits.OUTPUT_BYTES, what="is")
        value_sizes.check(self.size + size, limits.OUTPUTS_BYTES, what="with the outputs before it is")
        self.size += size
        self.values[name] = value


def evaluate(plan: StackPlan) -> Outputs:
    """Evaluate all outputs."""
    outputs = Outputs()
    for name, output in plan.blueprint.outputs.items():
        if plan.reader.is_limited and (unreadable := find_unreadable(plan, output.reads)):
            if plan.reader.find(unreadable) is Access.DENIED:
                outputs.wrong.append(f"outputs.{name}: {plan.reader.explain(unreadable)}")
            continue
        values = {read: find_value(plan, read) for read in output.reads}
        outcome = output.evaluate(values)
        if isinstance(outcome, EvaluationError):
            outputs.wrong.append(f"outputs.{name}: {outcome.message}"[: limits.MISTAKE_LENGTH])
        elif isinstance(outcome, Known) and outcome.value is not None:
            try:
                outputs.put(name, outcome.value)
            except value_sizes.TooLarge as error:
                outputs.wrong.append(f"outputs.{name}: {error}")
    return outputs


def find_value(plan: StackPlan, name: str) -> Any:
    """Find what an expression reads under a name of the template: the object, or those of all members."""
    collection = plan.blueprint.collections.get(name)
    if collection is None:
        fields = find_fields(plan, name)
        return expressions.enlarge(fields) if fields is not None else None
    found = [find_fields(plan, member) for member in collection.members]
    known = [fields for fields in found if fields is not None]
    return tuple(known) if len(known) == len(found) else None


def find_fields(plan: StackPlan, resource: str) -> Mapping[str, Any] | None:
    """Find the fields of the object of a resource; of finished work that is gone, what is still known."""
    child = find_readable(plan, resource)
    if child is not None:
        return child.fields
    status = plan.statuses.get(resource)
    return status.finished_fields if status is not None else None


def find_readable(plan: StackPlan, resource: str) -> Child | None:
    """Find the object of a resource, unless it is beyond the Stack's boundary."""
    status = plan.statuses.get(resource)
    return status.child if status is not None and status.reason != tenancy.REASON else None


def find_unreadable(plan: StackPlan, names: Iterable[str]) -> Child | None:
    """Find an object that the account of the Stack may not get, or of which that is not known yet.

    names: as expressions read them.
    """
    collections = plan.blueprint.collections
    resources = (each for name in names for each in (collections[name].members if name in collections else (name,)))
    found = (child for each in resources if (child := find_readable(plan, each)) is not None)
    return next((child for child in found if plan.reader.find(child) is not Access.GRANTED), None)
