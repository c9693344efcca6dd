"""What `scale` writes onto a ResourceGroup, or why it does not apply. Pure."""

from __future__ import annotations

from hearth.cli import object_fields
from hearth.cli.stack_views.stack_state import StackState
from hearth.model import value_class
from hearth.model.child import Object


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SizeDecision:
    """What becomes of a request for a size."""

    refusal: str = ""
    """Why it does not apply."""
    patch: Object | None = None
    """The merge patch of the scale subresource; None if the group has that size."""


def decide(group: StackState, replicas: int) -> SizeDecision:
    """Return what to write so that the group has that size."""
    if group.is_deleting:
        return SizeDecision(refusal=f"resourcegroup/{group.name} is being deleted; its size does not change any more")
    if object_fields.number(group.spec, "replicas") == replicas:
        return SizeDecision()
    return SizeDecision(patch={"spec": {"replicas": replicas}})


def list_notes(group: StackState) -> list[str]:
    """Return why nothing happens yet."""
    paused = (
        f"the group is paused: nothing is written before `kubectl stack unpause {group.argument} -n {group.namespace}`"
    )
    suspended = (
        f"the group is suspended: the size counts after `kubectl stack resume {group.argument} -n {group.namespace}`"
    )
    return [*([paused] if group.is_paused else []), *([suspended] if group.is_suspended else [])]
