"""What a kind that the operator may not list means for one Stack: nothing of it can be there, or that cannot be said.

Objects of a kind are only written once they are watched. So a kind that was never listed has none, unless an earlier
revision of the Stack was completed with it, and the right to it was taken away since.
"""

from __future__ import annotations

from hearth.engine import verified_revisions
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.ports import StackObject
from hearth.engine.services import Services
from hearth.model.errors import InvalidDefinition, SourceNotFound
from hearth.model.kinds import Kind
from hearth.template.compiler import compiler


async def may_be_there(kind: Kind, stack: StackObject, *, services: Services, intake: DefinitionSync) -> bool:
    """Whether objects of that Stack and kind may exist, though they cannot be listed.

    Raises Refused or Unreachable where the server does not say.
    """
    children = services.workload_cluster.children(stack.uid).values()
    if any(child.kind.key == kind.key for found in children for child in found):
        return True
    # Who may still write may have written; who may do neither now has, as a rule, never had any right.
    for namespace in dict.fromkeys((services.only_namespace, stack.namespace)):
        if await services.workload_cluster.is_allowed("patch", kind=kind, namespace=namespace):
            return True
    return await _was_completed_with(kind, stack, services=services, intake=intake)


async def _was_completed_with(kind: Kind, stack: StackObject, *, services: Services, intake: DefinitionSync) -> bool:
    """Whether the revision that was completed last wants objects of that kind: of others nothing was left then."""
    last = intake.targets.completed.last
    if not last:
        return False
    revision = verified_revisions.load(services.management_cluster, services.hashes, stack).find(last)
    if revision is None:
        return True
    try:
        definition = await intake.acceptor.read_revision(stack, revision)
    except (InvalidDefinition, SourceNotFound):
        return True
    found = (api_version.rpartition("/")[0] + "/" + name for api_version, name in compiler.find_kinds(definition))
    return f"{kind.group}/{kind.name}" in set(found)
