"""Reads the stored revisions of a Stack and their definitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hearth.cli.stack_views.stack_state import StackState
from hearth.model import errors, names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.well_known_kinds import CONTROLLER_REVISION

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session


@value_class.dataclass(frozen=True, slots=True)
class StoredRevisions:
    """The revisions of one Stack without their definitions, by number."""

    by_number: dict[int, Object]
    is_readable: bool = True
    """Whether the user may list ControllerRevisions."""

    @property
    def kinds(self) -> frozenset[str]:
        """Return every kind that any revision ever applied, as `apps/v1/Deployment`."""
        return frozenset(kind for found in self.by_number.values() for kind in read_kinds(found))


async def list_revisions(session: Session, stack: StackState) -> StoredRevisions:
    """Return the revisions that belong to the Stack; none if the user is not allowed to list them."""
    return await list_owned(session, stack.uid, namespace=stack.namespace)


async def list_definition_revisions(session: Session, definition: Object) -> StoredRevisions:
    """Return the revisions of a StackDefinition; none if the user is not allowed to list them.

    Only the status shows their namespace: anyone can create revisions in other namespaces that name it as their owner.
    """
    namespace = object_fields.text(definition, "status", "revisionNamespace")
    if not namespace:
        return StoredRevisions({})
    return await list_owned(session, definition["metadata"]["uid"], namespace=namespace)


async def list_owned(session: Session, uid: str, *, namespace: str) -> StoredRevisions:
    """Return the revisions that belong to a Stack or StackDefinition; none if the user is not allowed to list them."""
    try:
        found = await session.list(
            CONTROLLER_REVISION, namespace, selector=f"{names.LABEL_STACK_UID}={uid}", only_metadata=True
        )
    except errors.ApiStatusError as refused:
        if not refused.is_forbidden:
            raise
        return StoredRevisions({}, is_readable=False)
    return StoredRevisions(number_revisions(found, uid))


def is_owned(revision: Object, uid: str) -> bool:
    """Return whether an object with that UID owns a revision."""
    return any(owner.get("uid") == uid for owner in object_fields.entries(revision, "metadata", "ownerReferences"))


def number_revisions(found: Iterable[Object], stack_uid: str) -> dict[int, Object]:
    """Return the revisions that the Stack owns, by number. Other revisions may carry its label as well."""
    numbered: dict[int, Object] = {}
    for revision in found:
        text = object_fields.text(revision, "metadata", "annotations", names.ANNOTATION_REVISION)
        if text.isascii() and text.isdigit() and is_owned(revision, stack_uid):
            numbered[int(text[:18])] = revision
    return dict(sorted(numbered.items()))


def read_kinds(revision: Object) -> list[str]:
    """Return the kinds in the annotation of a revision."""
    text = object_fields.text(revision, "metadata", "annotations", names.ANNOTATION_KINDS)
    return [each for each in text.split(",") if each]


async def get_definition(session: Session, revision: Object) -> Object:
    """Return `{"template", "parameters", "sensitive"}` of a revision, which may consist of several objects.

    Raises ApiStatusError, or TamperedRevision if it contains no definition.
    """
    from hearth.kube.objects import controller_revision

    namespace, name = revision["metadata"]["namespace"], revision["metadata"]["name"]
    whole = await session.get(CONTROLLER_REVISION, namespace, name)
    count = controller_revision.read_part_count(whole["metadata"].get("annotations") or {})
    parts = []
    for part in controller_revision.name_parts(name, count):
        try:
            parts.append(await session.get(CONTROLLER_REVISION, namespace, part))
        except errors.ApiStatusError as error:
            if not error.is_not_found:
                raise
            raise controller_revision.make_tampered(name, f"{part} does not exist") from error
    return controller_revision.parse_definition(whole, parts)
