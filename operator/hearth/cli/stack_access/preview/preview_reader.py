"""Reads what a preview needs besides the objects of the Stack, and asks for the preview."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sys
import time
from collections.abc import Mapping

import orjson
import structlog

from hearth.cli import object_fields
from hearth.cli.stack_access import revisions
from hearth.cli.stack_access.preview import wanted_stack
from hearth.cli.stack_access.preview.dry_run_cluster import DryRunCluster
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views.stack_state import StackState
from hearth.engine.cluster_objects import Revision
from hearth.engine.work_queue import DirtyScope, WorkQueue
from hearth.kube.cache import stack_cache
from hearth.kube.objects import controller_revision
from hearth.model import errors, instance_fields
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.tenancy import DefinerAccount, Tenancy
from hearth.model.well_known_kinds import SERVICE_ACCOUNT, STACK, STACK_DEFINITION
from hearth.preview import previews
from hearth.preview.changes import Preview
from hearth.preview.preview_world import PreviewRequest
from hearth.sandbox.pool import Pool
from hearth.template.instances import instance_form
from hearth.template.instances.instance_form import InstanceForm


def silence_engine() -> None:
    """Let the engine log errors alone: it logs what it would write, which is the preview."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


async def preview_rollback(session: Session, stack: StackState, number: int, *, tenancy: Tenancy) -> Preview:
    """Return the preview of a rollback to a revision, 0 for the last completed one. Raises ApiStatusError or Unreachable."""
    cluster = DryRunCluster(session, namespace=stack.namespace)
    wanted = await wanted_stack.try_rollback(cluster, stack, number)
    return await preview_stack(session, stack, wanted, tenancy=tenancy)


async def preview_present(session: Session, stack: StackState, *, tenancy: Tenancy) -> Preview:
    """Return what the operator would write now for the Stack as it is, if it were not paused.

    Raises ApiStatusError or Unreachable.
    """
    spec = object_fields.mapping(stack.raw, "spec")
    options = object_fields.mapping(spec, instance_fields.OPTIONS) if stack.is_instance else spec
    running = {key: value for key, value in options.items() if key != "paused"}
    wanted = {**stack.raw, "spec": {**spec, instance_fields.OPTIONS: running} if stack.is_instance else running}
    return await preview_stack(session, stack, wanted, tenancy=tenancy)


async def preview_stack(session: Session, stack: StackState, wanted: Object, *, tenancy: Tenancy) -> Preview:
    """Return what another state of a Stack, or instance, would change. Raises ApiStatusError or Unreachable."""
    instance = None
    if stack.is_instance:
        form = await get_form(session, stack)
        instance = stack.kind, form
        if form.definer is not None:
            tenancy = dataclasses.replace(tenancy, definer_accounts=frozenset({str(form.definer)}))
    return await make_preview(session, present=stack.raw, wanted=wanted, tenancy=tenancy, beside={}, instance=instance)


async def get_form(session: Session, stack: StackState) -> InstanceForm:
    """Return the revision of its StackDefinition that an instance has. Raises ApiStatusError if the user may not read it."""
    name, number = f"{stack.kind.plural}.{stack.kind.group}", object_fields.number(stack.status, "definitionRevision")
    definition = await session.get(STACK_DEFINITION, "", name)
    stored = await revisions.list_owned(session, definition["metadata"]["uid"])
    if not stored.is_readable:
        raise errors.SourceForbidden(
            f"you may not list controllerrevisions.apps in all namespaces, of which that of the operator has the revisions of "
            f"StackDefinition {name}: a preview needs one"
        )
    if number not in stored.by_number:
        raise errors.SourceNotFound(f"StackDefinition {name} has no revision {number}, which {stack.title} has")
    content = await read_definition(session, stored.by_number[number])
    if not content:
        raise errors.SourceForbidden(
            f"you may not read revision {number} of StackDefinition {name}: a preview needs it"
        )
    return instance_form.make_form(name, number, content)


async def make_preview(
    session: Session,
    *,
    present: Object | None,
    wanted: Object,
    tenancy: Tenancy,
    beside: Mapping[ObjectRef, Object],
    instance: tuple[Kind, InstanceForm] | None = None,
) -> Preview:
    """Return the preview. Raises ApiStatusError or Unreachable.

    present, wanted: the Stack as it is and would be; beside: sources that the user states with it; instance: the kind of an
    instance, and the revision of its StackDefinition that it would have.
    """
    kind, form = instance if instance is not None else (None, None)
    cluster = DryRunCluster(session, namespace=wanted["metadata"]["namespace"])
    stored, stacks, accounts, _ = await asyncio.gather(
        read_revisions(session, present),
        read_stacks(session, wanted),
        find_accounts(cluster, wanted, tenancy, form.definer if form is not None else None),
        session.kinds.refresh(),
    )
    request = PreviewRequest(
        present=present,
        wanted=wanted,
        revisions=stored,
        stacks=stacks,
        beside=beside,
        tenancy=tenancy,
        accounts=accounts,
        form=form,
        kind=kind,
    )
    pools: list[Pool] = []

    def evaluate(queue: WorkQueue) -> Pool:
        pools.append(Pool(notify=lambda uid: queue.enqueue(uid, DirtyScope.EVALUATED), on_limit=lambda _limit: None))
        return pools[-1]

    try:
        return await previews.make_preview(cluster, request, now=time.time(), evaluate=evaluate)
    finally:
        await asyncio.gather(*(pool.close() for pool in pools))


async def read_revisions(session: Session, present: Object | None) -> list[tuple[Revision, Object]]:
    """Return the stored revisions of the Stack with their definitions. Raises ApiStatusError if the user may not."""
    if present is None:
        return []
    stored = await revisions.list_revisions(session, StackState(present))
    if not stored.is_readable:
        namespace = present["metadata"]["namespace"]
        message = f"you may not list controllerrevisions.apps in namespace {namespace}, which a preview needs"
        raise errors.SourceForbidden(message)
    found = list(stored.by_number.values())
    definitions = await asyncio.gather(*(read_definition(session, each) for each in found))
    parsed = (controller_revision.parse_revision(each["metadata"]) for each in found)
    return list(zip(parsed, definitions, strict=True))


async def read_definition(session: Session, revision: Object) -> Object:
    """Return a definition; empty if it is unreadable."""
    try:
        return await revisions.get_definition(session, revision)
    except (errors.TamperedRevision, errors.ApiStatusError):
        return {}


async def read_stacks(session: Session, wanted: Object) -> list[str] | None:
    """Return the UIDs of all Stacks, if adoption may ask for them; None if the user may not list them."""
    if b"adoptionPolicy" not in orjson.dumps(wanted["spec"]):
        return None
    try:
        return [each["metadata"]["uid"] for each in await session.list(STACK, only_metadata=True)]
    except errors.ApiStatusError:
        return None


async def find_accounts(
    cluster: DryRunCluster, wanted: Object, tenancy: Tenancy, definer: DefinerAccount | None = None
) -> list[str]:
    """Return the account of the Stack, if it has one and the user may impersonate it. definer: as in its StackDefinition."""
    namespace = object_fields.text(wanted, "metadata", "namespace")
    boundary = tenancy.find_boundary(namespace, stack_cache.find_account(wanted["spec"]), definer=definer)
    if not boundary.account:
        return []
    may = await cluster.is_allowed(
        "impersonate", kind=SERVICE_ACCOUNT, namespace=boundary.account_namespace, name=boundary.account
    )
    return [boundary.user] if may else []
