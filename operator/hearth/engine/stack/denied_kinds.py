"""Meaning of a kind that the operator may not list for one Stack: no object of it exists, or that is unknown.

The operator writes objects of a kind only after it watches the kind. A kind that was never listed has no objects, with
one exception. An earlier revision was completed with the kind, and the right to it was withdrawn later.
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
    """Return whether objects of that Stack and kind may exist although the operator cannot list them.

    Raises ApiStatusError or Unreachable if the API server does not answer.
    """
    children = services.workload_cluster.children(stack.uid).values()
    if any(child.kind.key == kind.key for found in children for child in found):
        return True
    # An account that may write now may have written before. One that may do neither usually never had the right.
    for namespace in dict.fromkeys((services.only_namespace, stack.namespace)):
        if await services.workload_cluster.is_allowed("patch", kind=kind, namespace=namespace):
            return True
    return await _was_completed_with(kind, stack, services=services, intake=intake)


async def _was_completed_with(kind: Kind, stack: StackObject, *, services: Services, intake: DefinitionSync) -> bool:
    """Return whether the last completed revision contains that kind. It left no objects of other kinds."""
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
