"""What a StackDefinition in a file would change: the preview of each of its instances, by the engine itself."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hearth.cli import object_fields
from hearth.cli.stack_access.preview import preview_reader, wanted_stack
from hearth.cli.stack_access.preview.dry_run_cluster import DryRunCluster
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views.files import stack_files
from hearth.cli.stack_views.files.stack_files import StackFile
from hearth.engine.definition import definition_sources
from hearth.engine.stack_definitions import definition_objects
from hearth.model import chunked_work, errors, value_class, well_known_kinds
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.tenancy import Tenancy
from hearth.model.well_known_kinds import STACK_DEFINITION
from hearth.preview.changes import Preview
from hearth.template.instances import instance_form
from hearth.template.instances.instance_form import InstanceForm

CONCURRENCY: Final = 4
"""Previews at the same time: each runs the engine, and sends a dry run for each object."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionPreview:
    """What a change of one StackDefinition does."""

    name: str
    previews: tuple[Preview, ...] = ()
    """Of each instance that follows it."""
    unfit: tuple[str, ...] = ()
    """Instances that do not fit it, each with the reason; then it is refused."""
    pinned: int = 0
    """Instances that keep to their revision."""


async def include_template(session: Session, file: StackFile) -> StackFile:
    """Return a StackDefinition with the template in its spec, which files beside it contain, else the cluster.

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


async def make_preview(
    session: Session, stated: Object, *, template: Object, tenancy: Tenancy, show: Callable[[str], None]
) -> DefinitionPreview:
    """Return the preview of a StackDefinition. Raises ApiStatusError or Unreachable.

    template: of the definition, which may be in other objects; show: gets how far it is.
    """
    name = object_fields.text(stated, "metadata", "name")
    present = await session.find(STACK_DEFINITION, "", name)
    cluster = DryRunCluster(session, namespace="")
    tried = await wanted_stack.try_file(cluster, stated, present, kind=STACK_DEFINITION)
    spec: Object = {**tried["spec"], "template": template}
    newest = object_fields.number(present, "status", "revision") or 0 if present is not None else 0
    form = instance_form.make_form(name, newest + 1, instance_form.make_content(spec))
    if form.definer is not None:
        tenancy = dataclasses.replace(tenancy, definer_accounts=frozenset({str(form.definer)}))
    kind = definition_objects.find_kind(spec)
    instances = await list_instances(session, kind)
    following = [each for each in instances if instance_form.find_pin(each.get("spec")) is None]
    own_form, rules = await make_own_form(session, present, newest), instance_form.read_rules(form)
    unfit = [text for each in instances for text in find_unfit(form, rules, each, own_form=own_form)]
    if unfit:
        return DefinitionPreview(name=name, unfit=tuple(unfit))
    previews = await preview_all(session, following, (kind, form), tenancy=tenancy, show=show)
    return DefinitionPreview(name=name, previews=tuple(previews), pinned=len(instances) - len(following))


async def list_instances(session: Session, kind: Kind) -> list[Object]:
    """Return all instances; none before the kind is made."""
    try:
        return await session.list(kind)
    except errors.ApiStatusError as refused:
        if not refused.is_not_found:
            raise
        return []


async def make_own_form(session: Session, present: Object | None, number: int) -> InstanceForm | None:
    """Return the newest revision of a StackDefinition that exists, if its spec still is that revision."""
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
    """Return what of an instance does not fit, with its name, as the operator judges. own_form: the revision of most of them."""
    is_own = own_form is not None and object_fields.number(instance, "status", "definitionRevision") == own_form.number
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
    """Return the previews, some at a time."""
    slots, done = asyncio.Semaphore(CONCURRENCY), 0

    async def preview(each: Object) -> Preview:
        nonlocal done
        async with slots:
            made = await preview_reader.make_preview(
                session, present=each, wanted=each, tenancy=tenancy, beside={}, instance=instance
            )
        done += 1
        show(f"{done} of {len(instances)} objects previewed")
        return made

    return list(await asyncio.gather(*map(preview, instances)))
