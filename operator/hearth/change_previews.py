"""Implements `hearth.engine.ports.ChangePreviews` on a real API server: previews with the rights of the operator and, for
dry runs, of the account of the Stack.

The first preview opens the session, so that an installation without approvals pays nothing.
"""

from __future__ import annotations

import asyncio

from hearth.cli.stack_access import read_budgets
from hearth.cli.stack_access.read_budgets import ListTooLarge, ReadMemory, ReadMeter
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_previews import StackPreviewer
from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition.revision_builder import FairSlots
from hearth.kube.client.connection import Connection
from hearth.model import limits
from hearth.model.errors import Unreachable
from hearth.model.tenancy import Tenancy
from hearth.model.well_known_kinds import RESOURCE_GROUP, STACK, STACK_DEFINITION
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.target.change_plans import PreviewedChange
from hearth.preview import planned_steps, source_readers
from hearth.preview.changes import Preview
from hearth.preview.planned_steps import NotPlannable
from hearth.preview.source_readers import NO_READERS, SourceReaders

PREVIEW_SECONDS = 120.0
"""Maximum seconds for one preview: that of a thousand objects takes some 30."""


class KubeChangePreviews:
    """Makes one preview at a time; namespaces take turns."""

    def __init__(self, connection: Connection, *, tenancy: Tenancy, hashes: HashFunction) -> None:
        self._connection = connection
        self._tenancy = tenancy
        self._hashes = hashes
        self._session: Session | None = None
        self._turns = FairSlots(1)

    async def preview(self, stack: StackObject) -> PreviewedChange:
        """Return the steps of the change that the spec of a Stack requests. Raises HearthError.

        Raises NotPlannable if it takes too long, and ListTooLarge if the objects that it reads do not fit into the memory of
        one preview.
        """
        meter = ReadMeter(ReadMemory(limits.PLAN_READS), limits.PLAN_READS)
        async with self._turns.take(stack.namespace):
            try:
                # The wait for the turn does not count. Otherwise one slow preview would end all that wait for it.
                with read_budgets.metering(meter):
                    async with asyncio.timeout(PREVIEW_SECONDS):
                        return await self._preview(stack)
            except TimeoutError:
                raise NotPlannable(f"the preview takes longer than {PREVIEW_SECONDS:g} seconds") from None

    async def _preview(self, stack: StackObject) -> PreviewedChange:
        if self._session is None:
            self._session = Session(self._connection)
        raw = await self._session.get(STACK, stack.namespace, stack.name)
        if raw["metadata"]["uid"] != stack.uid:
            raise Unreachable(f"Stack {stack.namespace}/{stack.name} was replaced")
        hash_content = self._hashes.of_stack(stack.uid).hash
        previewer = StackPreviewer(session=self._session, tenancy=self._tenancy, beside={}, hash_content=hash_content)
        preview = await previewer.preview(raw, planned_steps.unpause(raw))
        readers = await read_source_readers(self._session, preview)
        return planned_steps.make_change(preview, generation=raw["metadata"]["generation"], readers=readers)


async def read_source_readers(session: Session, preview: Preview) -> SourceReaders:
    """Return what else may change with the objects of a preview. Raises ApiStatusError and Unreachable."""
    written = set(source_readers.find_written(source_readers.list_all_changes(preview)))
    namespaces = {each.namespace for each in written if source_readers.is_source(each)}
    if not namespaces and not any(map(source_readers.is_custom, written)):
        return NO_READERS
    try:
        found = await session.list_allowed(STACK_DEFINITION, "")
        for namespace in namespaces:
            for kind in (STACK, RESOURCE_GROUP):
                found += await session.list_allowed(kind, namespace)
    except ListTooLarge:
        return SourceReaders(is_complete=False)
    return source_readers.find_readers(found)
