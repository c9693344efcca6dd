"""From a Stack's spec to what runs: read the definition, compile it, number it, and store it before anything is written.

Every step may be repeated at any time; a definition that is accepted already costs nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from hearth.engine import cooperative_work, verified_revisions
from hearth.engine.definition import blueprint_cache, parameter_sources, stored_definition
from hearth.engine.definition.blueprint_cache import BlueprintCache
from hearth.engine.ports import Evaluations, ManagementCluster, Revision, StackObject, WorkloadCluster
from hearth.engine.unassisted import Unassisted
from hearth.engine.verified_revisions import RevisionSet
from hearth.model import names
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError, InvalidDefinition, SourceNotFound, TamperedRevision
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.template.blueprint import Blueprint, Definition, StackIdentity
from hearth.template.compiler import compiler
from hearth.template.parser import policies
from hearth.template.text import bounds, error_hints, template_source

EMPTY = Blueprint(resources={}, outputs={}, reads={})
"""What a Stack that is being deleted wants."""
NONE: frozenset[ObjectRef] = frozenset()
"""One for all: an empty set takes as much memory as one of four."""
DEFAULT_KEY = "template.yaml"
FORBIDDEN = 403
MAX_CONCURRENT_BUILDS = 16
"""Definitions; with the writes of children and statuses they stay below what a connection sends at once."""


@dataclass(frozen=True, slots=True)
class RevisionBuilder:
    """Accepts definitions for any Stack."""

    home: ManagementCluster
    cluster: WorkloadCluster
    hashes: HashFunction
    evaluations: Evaluations = field(default_factory=Unassisted)
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT_BUILDS))
    """For definitions that are being accepted: where a thousand Stacks are made at once, neither writes of children nor
    statuses queue up behind their revisions."""
    shared: BlueprintCache = field(default_factory=BlueprintCache)

    async def read_spec(self, namespace: str, spec: Object) -> Definition:
        """What the spec of a Stack in that namespace wants. Raises MissingSource or InvalidDefinition."""
        template, path = await self._get_template(namespace, spec)
        references = parameter_sources.find_references(namespace, spec)
        found = await parameter_sources.read(self.home, references)
        made = parameter_sources.apply_sources(template, spec.get("parameters") or {}, found, template_path=path)
        definition = await cooperative_work.share(made)
        parameter_sources.require_parameters(definition, references)
        return definition

    async def _get_template(self, namespace: str, spec: Object) -> tuple[Object, str]:
        """The template, and where it stands."""
        reference = spec.get("templateRef")
        if reference is None:
            return check_template(spec.get("template") or {}), "spec.template"
        place = locate_source(namespace, reference)
        key = reference.get("key") or DEFAULT_KEY
        try:
            data = await self.home.get_source(place)
        except ApiStatusError as error:
            if error.code != 404:
                raise
            message = f"spec.templateRef: {place} does not exist in namespace {namespace}; create it"
            raise SourceNotFound(message) from error
        if key not in data:
            found = error_hints.list_words(sorted(data)) or "none"
            raise SourceNotFound(f"spec.templateRef.key: {place} has no key {key!r}; its keys: {found}")
        path = f"({place} {key})"
        return await cooperative_work.share(template_source.parse_in_pieces(data[key], place=path)), path

    async def read_revision(self, stack: StackObject, revision: Revision) -> Definition:
        """The definition that a revision holds, with sensitive values as they are at their sources now.

        `renewed` tells which of these are others than then. Raises MissingSource where one is gone, TamperedRevision where
        the definition is not the one that was stored.
        """
        stored = await self.home.get_definition(stack, revision)
        hashes = self.hashes.of_stack(stack.uid)
        if not stored_definition.is_as_stored(stored, revision.hash, hashes):
            raise TamperedRevision(verified_revisions.explain(revision))
        check_template(stored["template"])
        return await stored_definition.from_stored(
            stored, home=self.home, stack=stack, number=revision.number, hashes=hashes
        )

    def slot(self, stack: StackObject) -> AbstractAsyncContextManager[None]:
        """Within which a definition is accepted; what is to go waits for nobody's."""
        return contextlib.nullcontext() if stack.deleting else self.slots

    def hash(self, definition: Definition, stack: StackObject) -> str:
        """The keyed hash that a definition of that Stack is known by."""
        hashes = self.hashes.of_stack(stack.uid)
        return stored_definition.hash_record(stored_definition.to_stored(definition, hashes), hashes)

    async def compile(self, definition: Definition, stack: StackObject) -> Blueprint:
        """The blueprint, typed against the cluster's schemas. Raises InvalidDefinition.

        Raises Unevaluated where expressions in it are still being evaluated: try again when that is done.
        """
        kinds, identity = self.cluster.kinds, identify(stack)
        pairs = await cooperative_work.share(compiler.find_kinds_in_pieces(definition))
        await self.cluster.load_schemas([kind for pair in pairs if (kind := kinds.find(*pair)) is not None])
        # Always as the live spec says, whichever definition runs.
        adopts = bool(policies.adopts(stack.spec.get("adoptionPolicy")))
        digest = blueprint_cache.find_digest(definition, adopts=adopts, generation=kinds.generation)
        known = self.shared.find(digest, identity)
        if known is not None:
            return known
        generation = kinds.generation
        pieces = compiler.compile_in_pieces(definition, stack=identity, kinds=kinds, evaluator=self.evaluations)
        made = await cooperative_work.share(pieces, begin=lambda: self.evaluations.begin(stack.uid))
        blueprint = dataclasses.replace(made, adopts=adopts)
        if kinds.generation == generation:
            self.shared.keep(digest, identity, blueprint)
        return blueprint

    async def make_deletion_blueprint(self, stack: StackObject) -> Blueprint:
        """What a Stack that is being deleted wants: nothing, except that objects are kept.

        A template that cannot be read says nothing of that, and holds nothing up.
        """
        spec = stack.spec
        if spec.get("deletionPolicy") == policies.ABANDON:
            return dataclasses.replace(EMPTY, abandons=True)
        try:
            definition = await self.read_spec(stack.namespace, spec)
        except (InvalidDefinition, SourceNotFound):
            return EMPTY
        except ApiStatusError as error:
            if error.code != FORBIDDEN:
                raise
            return EMPTY
        return dataclasses.replace(EMPTY, retained=policies.find_retained(definition.template))

    async def store(self, stack: StackObject, definition: Definition, blueprint: Blueprint, *, last: int) -> Revision:
        """The revision of the definition, stored with the Stack's finalizer: from here on children may be written.

        last: the highest number that was given already, which the cache may not show yet. Raises TamperedRevision where
        its names are taken.
        """
        await self.home.add_finalizer(stack)
        hashes = self.hashes.of_stack(stack.uid)
        stored = stored_definition.to_stored(definition, hashes)
        hashed = stored_definition.hash_record(stored, hashes)
        revisions = self.load_revisions(stack)
        kinds = {f"{resource.api_version}/{resource.kind}" for resource in blueprint.resources.values()}
        known = next((revision for revision in revisions.verified if revision.hash == hashed), None)
        if known is not None:
            return known
        revision = Revision(
            name=name_revision(stack, hashed),
            number=max(last, revisions.last_number) + 1,
            hash=hashed,
            kinds=revisions.kinds | kinds,
            namespace=stack.namespace,
            owner=stack.uid,
        )
        found = await self._create(stack, revision, stored)
        if verified_revisions.is_verified(found, stack, self.hashes) and found.hash == hashed:
            return found
        # An object of another writer has the name. Nobody can foresee the next one, as it is made of a signature.
        key = self.hashes.sign("name of a revision", [stack.uid, hashed, revision.number])
        found = await self._create(stack, dataclasses.replace(revision, name=name_revision(stack, key)), stored)
        if verified_revisions.is_verified(found, stack, self.hashes) and found.hash == hashed:
            return found
        raise TamperedRevision(verified_revisions.explain(found))

    async def _create(self, stack: StackObject, revision: Revision, stored: Object) -> Revision:
        """What has the revision's name afterwards."""
        signed = verified_revisions.sign(revision, stack, self.hashes)
        return await self.home.create_revision(stack, signed, stored)

    def load_revisions(self, stack: StackObject) -> RevisionSet:
        """The revisions of a Stack, sorted by whether they count."""
        return verified_revisions.load(self.home, self.hashes, stack)


def check_template(template: Object) -> Object:
    """The template of a spec. Raises InvalidDefinition where it is deeper or larger than what can be gone through."""
    excess = bounds.check(template, path="spec.template")
    if excess:
        raise InvalidDefinition(excess)
    return template


def name_revision(stack: StackObject, key: str) -> str:
    """The name of a ControllerRevision; another key gives another one."""
    return names.shorten(f"{stack.name}-{names.digest(stack.uid, key)}", length=names.NAME_LENGTH)


def identify(stack: StackObject) -> StackIdentity:
    """What expressions know of the Stack."""
    return StackIdentity(name=stack.name, namespace=stack.namespace, uid=stack.uid)


def find_sources(namespace: str, spec: Object) -> frozenset[ObjectRef]:
    """The objects besides the spec that the definition is read from."""
    reference = spec.get("templateRef")
    found = {each.ref for each in parameter_sources.find_references(namespace, spec)}
    if reference is not None:
        found.add(locate_source(namespace, reference))
    return frozenset(found) if found else NONE


def locate_source(namespace: str, reference: Mapping[str, str]) -> ObjectRef:
    """Where a `templateRef` points."""
    return ObjectRef(group="", kind="ConfigMap", namespace=namespace, name=reference.get("name", ""))


def find_served_kinds(cluster: WorkloadCluster, kinds: Collection[str]) -> list[Kind]:
    """Of kinds written `apiVersion/Kind` those that the cluster serves now; the others have no objects."""
    found = (find_served(cluster, *name.rpartition("/")[::2]) for name in sorted(kinds))
    return [kind for kind in dict.fromkeys(found) if kind is not None]


def find_served(cluster: WorkloadCluster, api_version: str, name: str) -> Kind | None:
    """The kind as it is served now: its objects outlive the version that they were applied in."""
    found = cluster.kinds.find(api_version, name)
    if found is not None:
        return found
    group = api_version.rpartition("/")[0]
    return next((kind for kind in cluster.kinds.all() if (kind.group, kind.name) == (group, name)), None)
