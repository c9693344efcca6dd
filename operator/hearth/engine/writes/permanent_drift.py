"""Drift that no apply can undo, since the API server does not allow the change back: what it is, and the ways out.

Must not know how the apply was rejected.
"""

from __future__ import annotations

from typing import TypeVar

from hearth.engine.ports import WorkloadCluster
from hearth.engine.writes import repair_observation
from hearth.model import names
from hearth.model.tenancy import Boundary
from hearth.plan.resource import replacement
from hearth.plan.retry.backoff import StepFailure
from hearth.plan.state.steps import Apply, Step

Result = TypeVar("Result")
REASON = "DriftNotRepairable"


async def explain(step: Step, result: Result, *, cluster: WorkloadCluster, boundary: Boundary) -> Result | StepFailure:
    """Return the failure of a repair that the API server does not allow; any other result as it is.

    The definition did not change, so that no replacement of the object is due.
    """
    if not (isinstance(result, StepFailure) and result.immutable and isinstance(step, Apply) and step.lost):
        return result
    drift = await repair_observation.describe(step, cluster=cluster, boundary=boundary)
    message = (
        f"a change by another client cannot be undone: {drift or step.repaired_fields}; {result.message}; to keep it, put "
        f"its value into the template, or name the field in ignoreFields; {_explain_replacement(step)}"
    )
    return StepFailure(reason=REASON, message=message, retry_after=result.retry_after)


def _explain_replacement(step: Apply) -> str:
    """Say how the object gets the value of the template nevertheless."""
    if step.kind.key not in replacement.CREATE_FIRST_KINDS:
        return "only a new object gets the value of the template, and what this one holds is lost with it"
    stack = step.manifest["metadata"]["labels"].get(names.LABEL_STACK, "")
    return f"to have another object with the value of the template: kubectl stack mark {stack} {step.resource} --reason drift"
