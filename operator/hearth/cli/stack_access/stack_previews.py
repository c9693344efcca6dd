"""Previews a change of a Stack, or of a StackDefinition with all its instances.

It reads the inputs of the engine and runs `hearth.preview`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

import orjson
import structlog

from hearth.cli.stack_access import dry_runs, revisions
from hearth.cli.stack_access.dry_runs import DryRunCluster
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import OtherClusters
from hearth.cli.stack_views.files import stack_files
from hearth.cli.stack_views.files.stack_files import StackFile
from hearth.cli.stack_views.stack_state import StackState
from hearth.engine.cluster_objects import Revision
from hearth.engine.definition import definition_sources
from hearth.engine.work_queue import DirtyScope, WorkQueue
from hearth.kube.cache import stack_cache
from hearth.kube.objects import controller_revision
from hearth.model import chunked_work, errors, instance_fields, limits, object_fields, value_class, well_known_kinds
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.tenancy import DefinerAccount, Mode, Tenancy
from hearth.model.well_known_kinds import SERVICE_ACCOUNT, STACK, STACK_DEFINITION
from hearth.plan.resource import definition_warnings
from hearth.preview import previews, rehearsals
from hearth.preview.changes import Preview
from hearth.preview.preview_run import NestedStack
from hearth.preview.preview_world import PreviewRequest
from hearth.preview.rehearsals import Rehearsal
from hearth.sandbox.pool import Pool
from hearth.template.instances import instance_form
from hearth.template.instances.instance_form import InstanceForm, InstanceForms

NEW_UID: Final = "00000000-0000-4000-8000-000000000000"
"""The UID of an object whose kind is not served yet."""
CONCURRENCY: Final = 4
"""Concurrent previews: each runs the engine, and sends a dry run for each object."""


def silence_engine() -> None:
    """Let the engine log only errors: the preview already shows the information in its other lines."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


async def preview_rollback(session: Session, stack: StackState, number: int, *, tenancy: Tenancy) -> Preview:
    """Return the preview of a rollback to a revision, 0 for the last completed one. Raises ApiStatusError or Unreachable."""
    cluster = DryRunCluster(session, namespace=stack.namespace)
    wanted = await dry_runs.try_rollback(cluster, stack, number)
    return await preview_stack(session, stack, wanted, tenancy=tenancy)


async def preview_present(session: Session, stack: StackState, *, tenancy: Tenancy) -> Preview:
    """Return the operator's next writes for the current Stack, as if it were not paused.

    Raises ApiStatusError or Unreachable.
    """
    spec = object_fields.mapping(stack.raw, "spec")
    options = object_fields.mapping(spec, instance_fields.OPTIONS) if stack.is_instance else spec
    running = {key: value for key, value in options.items() if key != "paused"}
    wanted = {**stack.raw, "spec": {**spec, instance_fields.OPTIONS: running} if stack.is_instance else running}
    return await preview_stack(session, stack, wanted, tenancy=tenancy)


async def preview_stack(session: Session, stack: StackState, wanted: Object, *, tenancy: Tenancy) -> Preview:
    """Return the changes that a different Stack or instance would cause. Raises ApiStatusError or Unreachable."""
    if not stack.is_instance:
        return await make_preview(session, present=stack.raw, wanted=wanted, tenancy=tenancy, beside={})
    instance = stack.kind, await get_form(session, stack)
    tenancy = add_definer(tenancy, instance[1])
    return await make_preview(session, present=stack.raw, wanted=wanted, tenancy=tenancy, beside={}, instance=instance)


def add_definer(tenancy: Tenancy, form: InstanceForm) -> Tenancy:
    """Return the tenancy that allows the account of the StackDefinition, because the operator allows it."""
    if form.definer is None:
        return tenancy
    return dataclasses.replace(tenancy, definer_accounts=frozenset({str(form.definer)}))


async def preview_instance(
    session: Session,
    stated: Object,
    kind: Kind,
    *,
    form: InstanceForm | None,
    tenancy: Tenancy,
    beside: Mapping[ObjectRef, Object],
) -> Preview:
    """Return the changes that an instance in a file would cause.

    Raises InvalidDefinition with every mistake, ApiStatusError, Unreachable or SourceForbidden. form: the revision of a
    StackDefinition that is not applied yet; None for the one in the cluster; beside: sources that the user provides with it.
    """
    namespace, name = stated["metadata"]["namespace"], object_fields.text(stated, "metadata", "name")
    present = await session.find(kind, namespace, name)
    is_applied = form is None
    form = form or await get_form(session, StackState(present or stated, kind))
    spec = stated.get("spec") or {}
    if mistakes := chunked_work.finish(instance_form.find_mistakes(form, instance_form.read_rules(form), spec)):
        raise errors.InvalidDefinition(mistakes)
    if is_applied:
        wanted = await dry_runs.try_file(DryRunCluster(session, namespace=namespace), stated, present, kind=kind)
    else:
        # The API server does not serve the kind with these fields yet.
        wanted = {**(present or make_new(stated)), "spec": spec}
    return await make_preview(
        session,
        present=present,
        wanted=wanted,
        tenancy=add_definer(tenancy, form),
        beside=beside,
        instance=(kind, form),
    )


def make_new(stated: Object) -> Object:
    """Return a new object as the API server would create it, apart from its UID."""
    assigned = {"uid": NEW_UID, "resourceVersion": "0", "generation": 1}
    return {**stated, "metadata": {**stated["metadata"], **assigned}}


async def get_form(session: Session, stack: StackState) -> InstanceForm:
    """Return the StackDefinition revision that an instance uses, or that a new one gets. Raises SourceForbidden if the user cannot read it."""
    name, number = f"{stack.kind.plural}.{stack.kind.group}", instance_form.find_last(stack.status)
    try:
        definition = await session.get(STACK_DEFINITION, "", name)
    except errors.ApiStatusError as refused:
        if not refused.is_forbidden:
            raise
        raise errors.SourceForbidden(
            f"you cannot get StackDefinition {name}, whose template a preview of {stack.title} needs: ask for "
            "permission to get "
            "stackdefinitions.hearth.dev and to list controllerrevisions.apps in the namespace of the operator"
        ) from refused
    stored = await revisions.list_definition_revisions(session, definition)
    if not stored.is_readable:
        raise errors.SourceForbidden(
            f"you cannot list controllerrevisions.apps in namespace {definition['status']['revisionNamespace']}, "
            "which has the "
            f"revisions of StackDefinition {name}: a preview needs one"
        )
    # A new instance gets the newest revision.
    number = number if number is not None else max(stored.by_number, default=0)
    if number not in stored.by_number:
        raise errors.SourceNotFound(f"StackDefinition {name} has no revision {number}, which {stack.title} has")
    # The newest revision determines the account.
    form, newest = [
        await read_form(session, name, each, stored.by_number[each]) for each in (number, max(stored.by_number))
    ]
    return dataclasses.replace(form, definer=newest.definer)


async def read_form(session: Session, name: str, number: int, revision: Object) -> InstanceForm:
    """Return a stored revision of a StackDefinition. Raises ApiStatusError and SourceForbidden."""
    content = await read_definition(session, revision)
    if not content:
        raise errors.SourceForbidden(f"you cannot read revision {number} of StackDefinition {name}: a preview needs it")
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
    """Return the preview, including the previews of the Stacks in it. Raises ApiStatusError, Unreachable or
    ClusterHidden.

    present, wanted: the Stack before and after the change; beside: sources that the user provides with it; instance:
    the kind of an instance, and the StackDefinition revision after the change.
    """
    kind, form = instance if instance is not None else (None, None)
    previewer = StackPreviewer(session=session, tenancy=tenancy, beside=beside, kind=kind, form=form)
    return await previewer.preview(present, wanted)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackPreviewer:
    """Makes the preview of one Stack, and of the Stacks in it."""

    session: Session
    tenancy: Tenancy
    beside: Mapping[ObjectRef, Object]
    kind: Kind | None = None
    form: InstanceForm | None = None
    hash_content: Callable[[Object], str] | None = None
    """See `PreviewRequest`."""
    depth: int = 0
    """Number of Stacks that contain this one."""

    async def preview(self, present: Object | None, wanted: Object) -> Preview:
        """Return the preview, computed in the cluster that the Stack names."""
        if "kubeConfig" not in wanted["spec"]:
            return await self._preview(present, wanted, tenancy=self.tenancy)
        others = OtherClusters(self.session)
        try:
            other = await others.find(StackState(wanted))
            await other.session.kinds.refresh()
            workload_cluster = DryRunCluster(
                other.session, namespace=other.namespace or wanted["metadata"]["namespace"]
            )
            # In the other cluster, only the rights of the kubeconfig apply.
            tenancy = dataclasses.replace(self.tenancy, mode=Mode.TRUSTED)
            present = leave_out_cluster(present) if present is not None else None
            return await self._preview(
                present, leave_out_cluster(wanted), tenancy=tenancy, workload_cluster=workload_cluster
            )
        finally:
            await others.close()

    async def _preview(
        self, present: Object | None, wanted: Object, *, tenancy: Tenancy, workload_cluster: DryRunCluster | None = None
    ) -> Preview:
        cluster = DryRunCluster(self.session, namespace=wanted["metadata"]["namespace"])
        request = await self._make_request(present, wanted, tenancy=tenancy, cluster=workload_cluster or cluster)
        async with open_evaluations() as evaluate:
            return await previews.make_preview(
                cluster,
                request,
                now=time.time(),
                workload_cluster=workload_cluster,
                evaluate=evaluate,
                preview_nested=self._preview_nested,
            )

    async def rehearse(
        self,
        present: Object | None,
        wanted: Object,
        *,
        rehearses_all: bool = False,
        report: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> Rehearsal:
        """Return the way back of the change, without the Stacks in it. rehearses_all, report: as for `rehearsals.rehearse`."""
        cluster = DryRunCluster(self.session, namespace=wanted["metadata"]["namespace"])
        request = await self._make_request(present, wanted, tenancy=self.tenancy, cluster=cluster)
        return await rehearsals.rehearse(
            cluster,
            request,
            now=time.time(),
            open_evaluations=open_evaluations,
            rehearses_all=rehearses_all,
            report=report,
        )

    async def _make_request(
        self, present: Object | None, wanted: Object, *, tenancy: Tenancy, cluster: DryRunCluster
    ) -> PreviewRequest:
        """Read the inputs of the engine. cluster: of the objects."""
        stored, stacks, accounts, _ = await asyncio.gather(
            read_revisions(self.session, present),
            read_stacks(self.session, wanted),
            find_accounts(cluster, wanted, tenancy, self.form.definer if self.form is not None else None),
            self.session.kinds.refresh(),
        )
        return PreviewRequest(
            present=present,
            wanted=wanted,
            revisions=stored,
            stacks=stacks,
            beside=self.beside,
            tenancy=tenancy,
            accounts=accounts,
            form=self.form,
            kind=self.kind,
            hash_content=self.hash_content,
        )

    async def _preview_nested(self, nested: NestedStack, sources: Mapping[ObjectRef, Object]) -> Preview:
        """Return the preview of a nested Stack. Parts that cannot be previewed become a note."""
        shown = nested.after or nested.before or {}
        inner = StackPreviewer(
            session=self.session, tenancy=self.tenancy, beside={**self.beside, **sources}, depth=self.depth + 1
        )
        try:
            if inner.depth > limits.NESTED_DEPTH:
                raise errors.HearthError(f"only {limits.NESTED_DEPTH} levels of Stacks are shown")
            if nested.after is None and nested.before is not None:
                return await preview_deletion(self.session, nested.before, tenancy=self.tenancy)
            return await inner.preview(nested.before, shown)
        except errors.HearthError as error:
            state = StackState(shown)
            note = f"the changes in it are not shown: {error}"
            return Preview(
                kind=state.kind.name, namespace=state.namespace, name=state.name, is_new=False, notes=(note,)
            )


@contextlib.asynccontextmanager
async def open_evaluations() -> AsyncIterator[Callable[[WorkQueue], Pool]]:
    """Yield the function that makes the evaluator of slow expressions for one run of the engine."""
    pools: list[Pool] = []

    def evaluate(queue: WorkQueue) -> Pool:
        pools.append(Pool(notify=lambda uid: queue.enqueue(uid, DirtyScope.EVALUATED), on_limit=lambda _limit: None))
        return pools[-1]

    try:
        yield evaluate
    finally:
        await asyncio.gather(*(pool.close() for pool in pools))


def leave_out_cluster(raw: Object) -> Object:
    """Return the Stack without its reference to another cluster."""
    return {**raw, "spec": {key: value for key, value in raw["spec"].items() if key != "kubeConfig"}}


async def preview_deletion(session: Session, present: Object, *, tenancy: Tenancy) -> Preview:
    """Return the deletions that follow from the deletion of a Stack. Raises ApiStatusError or Unreachable."""
    request = PreviewRequest(
        present=present, wanted=present, revisions=await read_revisions(session, present), tenancy=tenancy
    )
    cluster = DryRunCluster(session, namespace=present["metadata"]["namespace"])
    return await previews.preview_deletion(cluster, request, now=time.time())


async def read_revisions(session: Session, present: Object | None) -> list[tuple[Revision, Object]]:
    """Return the stored revisions of the Stack. Raises ApiStatusError if the user lacks permission to read them."""
    if present is None:
        return []
    stored = await revisions.list_revisions(session, StackState(present))
    if not stored.is_readable:
        namespace = present["metadata"]["namespace"]
        message = f"you cannot list controllerrevisions.apps in namespace {namespace}, which a preview needs"
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
    """Return the UIDs of all Stacks if adoption may need them; None if the user is not allowed to list them."""
    if b"adoptionPolicy" not in orjson.dumps(object_fields.mapping(wanted, "spec")):
        return None
    try:
        return [each["metadata"]["uid"] for each in await session.list(STACK, only_metadata=True)]
    except errors.ApiStatusError:
        return None


async def find_accounts(
    cluster: DryRunCluster, wanted: Object, tenancy: Tenancy, definer: DefinerAccount | None = None
) -> list[str]:
    """Return the account of the Stack, if it has one and the user may impersonate it. definer: the account that its
    StackDefinition names.
    """
    namespace = object_fields.text(wanted, "metadata", "namespace")
    boundary = tenancy.find_boundary(
        namespace, stack_cache.find_account(object_fields.mapping(wanted, "spec")), definer=definer
    )
    if not boundary.account:
        return []
    may = await cluster.is_allowed(
        "impersonate", kind=SERVICE_ACCOUNT, namespace=boundary.account_namespace, name=boundary.account
    )
    return [boundary.user] if may else []


# Changes from a StackDefinition in a file: the preview of each of its instances.


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionPreview:
    """Effects of a change of one StackDefinition."""

    name: str
    kind: Kind
    form: InstanceForm
    """The revision that the change would create."""
    previews: tuple[Preview, ...] = ()
    """Of each instance that follows it."""
    unfit: tuple[str, ...] = ()
    """Instances that are invalid under it, each with the reason. They keep their revision."""
    pinned: int = 0
    """Number of instances that stay at their revision."""
    lost_guards: tuple[str, ...] = ()
    """Defaults whose removal lets the deletion of an instance delete more than before."""


async def include_template(session: Session, file: StackFile) -> StackFile:
    """Return a StackDefinition with the template in its spec, from files next to it, otherwise from the cluster.

    Raises InvalidDefinition, ApiStatusError or Unreachable.
    """
    beside = list(file.beside)
    for source in definition_sources.find_definition_sources(object_fields.mapping(file.manifest, "spec")):
        kind, ref = well_known_kinds.SOURCE_KINDS[source.ref.kind], source.ref
        is_given = any(
            (object_fields.text(each, "kind"), object_fields.text(each, "metadata", "name")) == (ref.kind, ref.name)
            for each in file.beside
        )
        if not is_given and (found := await session.find(kind, ref.namespace, ref.name)) is not None:
            beside.append({**found, "kind": kind.name})
    return stack_files.include_template(dataclasses.replace(file, beside=beside))


async def preview_definition(
    session: Session, stated: Object, *, template: Object, tenancy: Tenancy, show: Callable[[str], None]
) -> DefinitionPreview:
    """Return the preview of a StackDefinition. Raises ApiStatusError or Unreachable.

    template: the template of the definition, which may come from other objects; show: receives the progress.
    """
    # This imports the models of all of Hearth's kinds, which no preview of a Stack needs.
    from hearth.engine.stack_definitions import definition_objects

    name = object_fields.text(stated, "metadata", "name")
    present = await session.find(STACK_DEFINITION, "", name)
    cluster = DryRunCluster(session, namespace="")
    tried = await dry_runs.try_file(cluster, stated, present, kind=STACK_DEFINITION)
    spec: Object = {**tried["spec"], "template": template}
    newest = object_fields.number(present, "status", "revision") or 0 if present is not None else 0
    form = instance_form.make_form(name, newest + 1, instance_form.make_content(spec))
    tenancy = add_definer(tenancy, form)
    kind = definition_objects.find_kind(spec)
    instances = await list_instances(session, kind)
    # The new revision, which does not exist yet, is newer than all others.
    forms = InstanceForms(name, by_number={form.number: form}, current=form.number)
    following = [each for each in instances if forms.find_pin(each.get("spec")) is None]
    own_form, rules = await make_own_form(session, present, newest), instance_form.read_rules(form)
    unfit = {
        each["metadata"]["uid"]: found
        for each in following
        if (found := find_unfit(form, rules, each, own_form=own_form))
    }
    fitting = [each for each in following if each["metadata"]["uid"] not in unfit]
    previews = await preview_all(session, fitting, (kind, form), tenancy=tenancy, show=show)
    return DefinitionPreview(
        name=name,
        kind=kind,
        form=form,
        previews=tuple(previews),
        unfit=tuple(text for found in unfit.values() for text in found),
        pinned=len(instances) - len(following),
        lost_guards=find_lost_guards(present, spec) if instances else (),
    )


def find_lost_guards(present: Object | None, spec: Object) -> tuple[str, ...]:
    """Return the defaults of an existing StackDefinition whose removal lets a deletion delete more than before."""
    before, after = object_fields.mapping(present, "spec", "defaults"), object_fields.mapping(spec, "defaults")
    found = definition_warnings.find_lost_guards(
        before, after, path="spec.defaults", objects=definition_warnings.INSTANCES
    )
    return tuple(found)


async def list_instances(session: Session, kind: Kind) -> list[Object]:
    """Return all instances; none before the kind is created."""
    try:
        return await session.list(kind)
    except errors.ApiStatusError as refused:
        if not refused.is_not_found:
            raise
        return []


async def make_own_form(session: Session, present: Object | None, number: int) -> InstanceForm | None:
    """Return the newest revision of an existing StackDefinition, if it matches the spec."""
    seen = object_fields.number(present, "status", "observedGeneration")
    if present is None or not number or seen != present["metadata"]["generation"]:
        return None
    try:
        file = await include_template(session, StackFile(source="", manifest=present, beside=()))
    except errors.InvalidDefinition:
        return None
    content = instance_form.make_content(file.manifest["spec"])
    return instance_form.make_form(present["metadata"]["name"], number, content)


def find_unfit(
    form: InstanceForm, rules: Mapping[str, Any], instance: Object, *, own_form: InstanceForm | None
) -> list[str]:
    """Return the mistakes of an instance, with its name. own_form: the revision that most instances use."""
    is_own = own_form is not None and instance_form.find_last(instance.get("status")) == own_form.number
    mistakes = chunked_work.finish(
        instance_form.find_unfit(form, rules, instance.get("spec"), own_form=own_form if is_own else None)
    )
    metadata = instance["metadata"]
    return [f"{metadata['namespace']}/{metadata['name']}: {each}" for each in mistakes]


async def preview_all(
    session: Session,
    instances: Sequence[Object],
    instance: tuple[Kind, InstanceForm],
    *,
    tenancy: Tenancy,
    show: Callable[[str], None],
) -> list[Preview]:
    """Return the previews of all instances, making a few at a time."""
    slots, done = asyncio.Semaphore(CONCURRENCY), 0

    async def preview(each: Object) -> Preview:
        nonlocal done
        async with slots:
            made = await make_preview(session, present=each, wanted=each, tenancy=tenancy, beside={}, instance=instance)
        done += 1
        show(f"{done} of {len(instances)} objects previewed")
        return made

    return list(await asyncio.gather(*map(preview, instances)))
