"""The Event at the moment at which an edit ends a rollback: it brings back what the rollback had taken away."""

from __future__ import annotations

from hearth.engine.cluster_objects import StackObject
from hearth.engine.services import Services
from hearth.plan.target import rollback_notes
from hearth.plan.target.target import Target
from hearth.template.blueprint import Blueprint


async def report(
    stack: StackObject,
    services: Services,
    *,
    before: Target | None,
    target: Target,
    blueprints: tuple[Blueprint | None, Blueprint],
) -> None:
    """Post the Event if the definition in the spec replaces a rollback. Never raises.

    before: the target until now; blueprints: of `before`, None after a restart, and of `target`.
    """
    if before is None or not before.is_rollback or target.is_rollback or before.revision == target.revision:
        return
    old, new = (each.resources if each is not None else {} for each in blueprints)
    if blueprints[0] is None:
        # Which resources differ is not known.
        old = new
    message = rollback_notes.describe_end(
        before,
        target,
        old=old.keys(),
        new=new.keys(),
        changed=[name for name, resource in new.items() if name in old and old[name] is not resource],
    )
    # A person has to see it, whether they meant it or not.
    await services.management_cluster.emit_event(stack, type_="Warning", reason=rollback_notes.ENDED, message=message)
