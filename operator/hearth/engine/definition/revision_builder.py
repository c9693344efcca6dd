"""Builds revisions of Stacks: reads, compiles, numbers and stores a definition before any child is written.

Every step is idempotent.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Set
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TypeAlias

import orjson

from hearth.engine import cooperative_work, verified_revisions
from hearth.engine.cluster_links import NO_CLUSTER, ClusterLink
from hearth.engine.cluster_objects import Revision, StackObject
from hearth.engine.definition import definition_sources, finished_record, stored_definition
from hearth.engine.definition.definition_sources import SourceReader
from hearth.engine.ports import ClusterKinds, Evaluations, ManagementCluster, WorkloadCluster
from hearth.engine.services import Unassisted
from hearth.engine.verified_revisions import RevisionSet
from hearth.model import members, names, value_class
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError, InvalidDefinition, SourceNotFound, TamperedRevision
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.tenancy import Tenancy
from hearth.model.turns import FairTurns
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.target.target import EMPTY_REVISION
from hearth.template import resource_group
from hearth.template.blueprint import Blueprint, Definition, ReadValue, SharingScope, StackIdentity
from hearth.template.cel.evaluation import Unevaluated
from hearth.template.compiler import compiler, sensitivity
from hearth.template.instances import instance_form
from hearth.template.parser import policies, template_kinds

Key: TypeAlias = tuple[bytes, str | None]
"""A definition's digest, and the namespace if the blueprint is valid in only one."""
DIGEST_SIZE = 16
"""Bytes. A collision would give a Stack another Stack's objects; 128 bits exclude that."""
EMPTY = Blueprint(resources={}, outputs={}, reads={})
"""The blueprint of a Stack being deleted."""
UNKNOWN = Blueprint(resources={}, outputs={}, reads={}, is_unknown=True)
"""The blueprint of a Stack that is suspended although its definition is unavailable."""
NONE: frozenset[ObjectRef] = frozenset()
"""One shared instance, because even an empty set needs as much memory as a set of four."""
SourcesCallback: TypeAlias = Callable[[frozenset[ObjectRef]], None]
"""Called with the objects that a stored definition is read from."""
MAX_CONCURRENT_BUILDS = 16
"""Definitions in progress. Together with the writes of children and statuses, they must stay below the maximum number
of concurrent requests of a connection."""
MAX_LARGE_BUILDS = 2
"""Definitions in progress with texts of more than `LARGE` characters. Each may take 80 MiB."""
LARGE = 128 * 1024
LARGE_MANIFESTS = 1024 * 1024
"""Bytes of the manifests of one definition in progress. Ten times as many may be in use, because members share texts."""
EVENTS = frozenset({("", "Event"), ("events.k8s.io", "Event")})
"""Groups and kind of Events."""


@dataclass(slots=True)
class BlueprintCache:
    """The blueprints in use, which Stacks with the same definition share.

    Each stays cached while any Stack uses it, so the cache needs no memory of its own.
    """

    _known: weakref.WeakValueDictionary[Key, Blueprint] = field(default_factory=weakref.WeakValueDictionary)

    def find(self, digest: bytes, stack: StackIdentity) -> Blueprint | None:
        """Return the blueprint of that definition for the Stack if another Stack has it."""
        if not digest:
            return None
        found = self._known.get((digest, None))
        return found if found is not None else self._known.get((digest, stack.namespace))

    def keep(self, digest: bytes, stack: StackIdentity, blueprint: Blueprint) -> None:
        """Cache the Stack's blueprint for all Stacks that it is valid for."""
        if digest and blueprint.scope is not SharingScope.ONE:
            self._known[digest, None if blueprint.scope is SharingScope.ANY else stack.namespace] = blueprint


def find_digest(definition: Definition, *, adopts: bool, generation: int, cluster: str = "") -> bytes:
    """Return a digest that is equal only for equal blueprints, apart from the Stack's identity; empty if unknown.

    adopts: the Stack's adoption policy; generation: of the kinds; cluster: key of the cluster that serves them. The
    digest stays in this process, so it needs no key of its own.
    """
    size = definition.size
    parts = (
        *(definition.template, definition.parameters, definition.origins),
        *(definition.template_path, definition.parameters_path, adopts, generation, cluster),
        *((size.replicas, size.removed) if size is not None else None, definition.surge),
        {name: [each.identity, each.value] for name, each in definition.read.items()},
    )
    try:
        # Keep the written order: it determines the order of the resources.
        written = orjson.dumps(parts)
    except TypeError:
        return b""
    return hashlib.blake2b(written, digest_size=DIGEST_SIZE).digest()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StoredRevision:
    """A stored revision with its blueprint, ready to activate."""

    blueprint: Blueprint
    revision: Revision | None = None
    """The stored revision; None for the empty revision."""
    renewed: tuple[str, ...] = ()
    """Sensitive parameters whose values have changed since the revision was stored."""


@value_class.dataclass(frozen=True, slots=True)
class RevisionBuilder:
    """The builder of revisions for all Stacks."""

    management_cluster: ManagementCluster
    cluster: WorkloadCluster
    hashes: HashFunction
    evaluations: Evaluations = field(default_factory=Unassisted)
    slots: FairSlots = field(default_factory=lambda: FairSlots(MAX_CONCURRENT_BUILDS))
    """Slots for definitions in progress.

    When a thousand Stacks are created at once, their revisions must not delay writes of children or statuses.
    """
    large_slots: FairSlots = field(default_factory=lambda: FairSlots(MAX_LARGE_BUILDS))
    """The slots for large definitions, which need up to twenty times their size while they are in progress."""
    large: set[str] = field(default_factory=set)
    """UIDs of the Stacks whose definitions were found to be large when they were last read."""
    compile_slots: FairSlots = field(default_factory=lambda: FairSlots(1))
    """Turns to compile: one definition at a time, so that slow ones in one namespace do not block other namespaces."""
    tenancy: Tenancy = field(default_factory=Tenancy)
    blueprints: BlueprintCache = field(default_factory=BlueprintCache)
    find_link: Callable[[str], ClusterLink] | None = None
    """Returns the link to the cluster of a Stack's objects, by UID; None if all objects are in `cluster`."""
    remote_slots: weakref.WeakValueDictionary[str, asyncio.Semaphore] = field(
        default_factory=weakref.WeakValueDictionary
    )
    """The slots of each other cluster in use. They are separate, because it may answer slowly or not at all."""
    read: dict[str, Mapping[str, ReadValue]] = field(default_factory=dict)
    """The current external objects from which `forEach` makes members, by Stack."""

    def find_reader(self, stack: StackObject) -> SourceReader:
        """Return the reader of the Stack's sources."""
        boundary = self.tenancy.find_boundary(stack.namespace, stack.service_account, definer=stack.definer)
        take_turn = functools.partial(self.compile_slots.take, stack.namespace)
        return SourceReader(self.management_cluster, boundary, take_turn=take_turn)

    def note_size(self, stack_uid: str, size: int, *, most: int = LARGE) -> None:
        """Note that a definition is about to be parsed from texts of that many characters, or from others as well.

        Raises Unevaluated if it is large and has no slot for large ones: start again in one. most: for a small one.
        """
        if size > most and stack_uid not in self.large:
            self.large.add(stack_uid)
            raise Unevaluated

    async def read_spec(
        self, namespace: str, spec: Object, *, reader: SourceReader | None = None, removed: Collection[int] = ()
    ) -> Definition:
        """Read the definition from the spec of a Stack in that namespace. reader: None reads as the operator.

        removed: of a group, the indices removed before. Raises SourceNotFound or InvalidDefinition.
        """
        reader = reader or SourceReader(self.management_cluster)
        template, path = await definition_sources.read_template(reader, namespace, spec)
        sources = definition_sources.find_parameter_sources(namespace, spec)
        wanted = sensitivity.find_stated(template).keys()
        found = await definition_sources.read_parameters(reader, sources, wanted=wanted)
        made = definition_sources.apply_sources(template, spec.get("parameters") or {}, found, template_path=path)
        definition = await cooperative_work.finish(made, take_turn=reader.take_turn)
        definition_sources.require_parameters(definition, sources)
        if (stated := spec.get(resource_group.SIZE)) is None:
            return definition
        if mistakes := list(members.find_size_mistakes(stated, known=removed)):
            raise InvalidDefinition(mistakes)
        return dataclasses.replace(definition, size=members.make_size(stated, known=removed))

    async def read_revision(
        self, stack: StackObject, revision: Revision, *, on_sources: SourcesCallback | None = None
    ) -> Definition:
        """Read the definition of a revision, with the current values of its sensitive parameters.

        on_sources: is notified of their sources before they are read. `refreshed` lists the sensitive parameters that
        changed since. Raises SourceNotFound if a value is missing, TamperedRevision if the definition differs from the
        stored one.
        """
        stored = await self._get_stored(stack, revision)
        if on_sources is not None:
            on_sources(stored_definition.find_sources(stored, stack.namespace))
        definition_sources.check_template(stored["template"], path=definition_sources.INLINE_PATH)
        return await stored_definition.from_stored(
            stored,
            reader=self.find_reader(stack),
            stack=stack,
            number=revision.number,
            hashes=self.hashes.of_stack(stack.uid),
        )

    async def is_resized(self, stack: StackObject, definition: Definition, revision: Revision) -> bool:
        """Whether a definition differs from another revision's only in the size of the group."""
        try:
            stored = await self._get_stored(stack, revision)
        except TamperedRevision:
            return False
        resized = stored_definition.with_size(definition, stored)
        return resized != definition and self.hash(resized, stack) == revision.hash

    async def is_refreshed(self, stack: StackObject, definition: Definition, revision: Revision) -> bool:
        """Whether a definition differs from another revision's only in values of sensitive parameters."""
        hashes = self.hashes.of_stack(stack.uid)
        try:
            stored = await self._get_stored(stack, revision)
        except TamperedRevision:
            return False
        return stored_definition.without_values(stored_definition.to_stored(definition, hashes)) == (
            stored_definition.without_values(stored)
        )

    async def _get_stored(self, stack: StackObject, revision: Revision) -> Object:
        stored = await self.management_cluster.get_definition(stack, revision)
        if not stored_definition.is_as_stored(stored, revision.hash, self.hashes.of_stack(stack.uid)):
            raise TamperedRevision(verified_revisions.explain(revision))
        return stored

    def slot(self, stack: StackObject) -> AbstractAsyncContextManager[None]:
        """Return the slot to process a definition in; a Stack being deleted needs none."""
        if stack.deleting:
            return contextlib.nullcontext()
        if stack.uid in self.large:
            return self.large_slots.take(stack.namespace)
        if stack.kubeconfig is None:
            return self.slots.take(stack.namespace)
        # Identify the cluster by its Secret, because the content that was last read may be outdated.
        name = f"{stack.namespace}/{stack.kubeconfig.name}"
        slots = self.remote_slots.get(name)
        if slots is None:
            slots = self.remote_slots[name] = asyncio.Semaphore(MAX_CONCURRENT_BUILDS)
        return slots

    def find_cluster(self, stack: StackObject) -> tuple[WorkloadCluster, str]:
        """Return the cluster of the Stack's objects, and its key."""
        if self.find_link is None:
            return (NO_CLUSTER if stack.kubeconfig is not None else self.cluster), ""
        link = self.find_link(stack.uid)
        return link.cluster, link.key

    def hash(self, definition: Definition, stack: StackObject) -> str:
        """Return the keyed hash that identifies a definition of that Stack."""
        hashes = self.hashes.of_stack(stack.uid)
        return stored_definition.hash_record(stored_definition.to_stored(definition, hashes), hashes)

    async def compile(
        self, definition: Definition, stack: StackObject, *, surge: int = 0, previous: Blueprint | None = None
    ) -> Blueprint:
        """Compile the blueprint, typed against the cluster's schemas. Raises InvalidDefinition.

        surge: number of surge members of a group; previous: the Stack's active blueprint, which shares the resources
        that do not change. Raises Unevaluated while expressions are being evaluated: retry afterward.
        """
        if definition.size is None:
            try:
                return await self._compile(definition, stack, previous=previous)
            except InvalidDefinition as error:
                raise instance_form.translate(error, stack.definition) if stack.definition else error from None
        timeout = stack.spec.get("timeout")
        mistakes = list(
            resource_group.find_mistakes(
                definition.template, definition.size, timeout=timeout, is_scaled=stack.is_size_scaled
            )
        )
        try:
            blueprint = await self._compile(dataclasses.replace(definition, surge=surge), stack, previous=previous)
        except InvalidDefinition as error:
            raise resource_group.translate(error, mistakes) from None
        if mistakes:
            raise InvalidDefinition(mistakes)
        return blueprint

    async def _compile(self, definition: Definition, stack: StackObject, *, previous: Blueprint | None) -> Blueprint:
        take_turn = functools.partial(self.compile_slots.take, stack.namespace)
        if stack.uid in self.read:
            self.note_size(stack.uid, sum(each.packed_size for each in self.read[stack.uid].values()))
            read = {
                name: await cooperative_work.finish(each.unpack_in_pieces(), take_turn=take_turn)
                for name, each in self.read[stack.uid].items()
            }
            definition = dataclasses.replace(definition, read=read)
        cluster, key = self.find_cluster(stack)
        kinds, identity = cluster.kinds, stack.identity
        pairs = await cooperative_work.finish(template_kinds.find_kinds_in_pieces(definition), take_turn=take_turn)
        loaded: list[Kind] = []
        # Repeat, because more kinds may appear while schemas are loaded. The generation already counts them, so their
        # schemas would not be loaded later.
        while (served := [kind for pair in pairs if (kind := kinds.find(*pair)) is not None]) != loaded:
            await cluster.load_schemas(served)
            loaded = served
        # Always use the adoption policy of the live spec, even for an earlier revision.
        adopts = bool(policies.adopts(stack.spec.get("adoptionPolicy")))
        generation = kinds.generation
        digest = find_digest(definition, adopts=adopts, generation=generation, cluster=key)
        known = self.blueprints.find(digest, identity)
        if known is not None:
            return known
        pieces = compiler.compile_in_pieces(
            definition,
            stack=identity,
            kinds=kinds,
            evaluator=self.evaluations,
            previous=previous,
            on_size=functools.partial(self.note_size, stack.uid, most=LARGE_MANIFESTS),
        )
        made = await cooperative_work.finish(
            pieces,
            begin=lambda: self.evaluations.begin(stack.uid),
            take_turn=take_turn,
        )
        blueprint = dataclasses.replace(made, adopts=adopts)
        if kinds.generation == generation:
            # Otherwise some resources may have been compiled with other schemas.
            self.blueprints.keep(digest, identity, blueprint)
        return blueprint

    async def make_deletion_blueprint(self, stack: StackObject, *, is_orphaned: bool) -> Blueprint:
        """Make the blueprint of a Stack being deleted: empty except for retained objects.

        An unreadable template retains nothing and blocks nothing. is_orphaned: see `verified_revisions.find_orphaned`.
        """
        spec = stack.spec
        if is_orphaned or spec.get("deletionPolicy") == policies.ABANDON:
            return dataclasses.replace(EMPTY, abandons=True)
        try:
            definition = await self.read_spec(stack.namespace, spec, reader=self.find_reader(stack))
        except (InvalidDefinition, SourceNotFound):
            return EMPTY
        except ApiStatusError as error:
            if not error.is_forbidden:
                raise
            return EMPTY
        return dataclasses.replace(EMPTY, retained=policies.find_retained(definition.template))

    async def store(
        self,
        stack: StackObject,
        definition: Definition,
        blueprint: Blueprint,
        *,
        hashed: str,
        numbers: RevisionNumbers,
    ) -> Revision:
        """Store the definition as a revision and add the Stack's finalizer; children may be written afterward.

        hashed: the hash of the definition, see `hash`; numbers: assigns the number of a new revision.
        Raises TamperedRevision if its names are taken.
        """
        await self.management_cluster.add_finalizer(stack)
        stored = stored_definition.to_stored(definition, self.hashes.of_stack(stack.uid))
        revisions = self.load_revisions(stack)
        known = next((revision for revision in revisions.verified if revision.hash == hashed), None)
        if known is not None:
            return known
        numbers.take([revisions.last_number])
        # Older revisions may be deleted.
        record = finished_record.find_newest(revisions.verified, stack, self.hashes)
        revision = Revision(
            name=name_revision(stack, hashed),
            number=numbers.assign(hashed),
            hash=hashed,
            kinds=revisions.kinds | blueprint.find_kinds(),
            namespace=stack.namespace,
            owner=stack.uid,
            finished=record.text if record is not None else "",
        )
        with contextlib.suppress(TamperedRevision):
            created = await self._create(stack, revision, stored)
            if verified_revisions.is_verified(created, stack, self.hashes) and created.hash == hashed:
                return created
        # The name is taken by an object of another writer, by a further object of a revision, or by the same definition
        # that an earlier version compressed differently before it was killed. The next name is unpredictable because it
        # contains a signature.
        key = self.hashes.sign("name of a revision", [stack.uid, hashed, revision.number])
        created = await self._create(stack, dataclasses.replace(revision, name=name_revision(stack, key)), stored)
        if verified_revisions.is_verified(created, stack, self.hashes) and created.hash == hashed:
            return created
        raise TamperedRevision(verified_revisions.explain(created))

    async def _create(self, stack: StackObject, revision: Revision, stored: Object) -> Revision:
        """Create the revision; return the revision that has its name afterward."""
        signed = verified_revisions.sign(revision, stack, self.hashes)
        return await self.management_cluster.create_revision(stack, signed, stored)

    async def compile_stored(
        self, stack: StackObject, number: int, *, surge: int = 0, on_sources: SourcesCallback | None = None
    ) -> StoredRevision:
        """Compile a stored revision. Raises SourceNotFound, TamperedRevision or InvalidDefinition.

        surge: number of surge members of a group; on_sources: see `read_revision`.
        """
        if number == EMPTY_REVISION:
            return StoredRevision(blueprint=EMPTY)
        revisions = self.load_revisions(stack)
        revision = revisions.find(number)
        if (unverified := revisions.find_unverified(number)) is not None:
            raise TamperedRevision(verified_revisions.explain(unverified))
        if revision is None:
            raise SourceNotFound("it is no longer stored; use another one, or change the spec")
        definition = await self.read_revision(stack, revision, on_sources=on_sources)
        # Treat the size as accepted: it was accepted with the revision, and the spec may contain a newer one.
        accepted = dataclasses.replace(stack, is_size_scaled=True)
        blueprint = await self.compile(definition, accepted, surge=surge)
        return StoredRevision(blueprint=blueprint, revision=revision, renewed=definition.refreshed)

    async def read_names(self, stack: StackObject, number: int) -> Set[str] | None:
        """Return the resources of a stored revision; None if they are unknown."""
        if number == EMPTY_REVISION:
            return frozenset()
        try:
            stored = await self.compile_stored(stack, number)
        except (InvalidDefinition, SourceNotFound, TamperedRevision):
            return None
        return stored.blueprint.resources.keys()

    def load_revisions(self, stack: StackObject) -> RevisionSet:
        """Load the revisions of a Stack, sorted by whether they count."""
        return verified_revisions.load(self.management_cluster, self.hashes, stack)


def name_revision(stack: StackObject, key: str) -> str:
    """Return the name of a ControllerRevision; a different key gives a different name."""
    return names.shorten(f"{stack.name}-{names.digest(stack.uid, key)}", length=names.NAME_LENGTH)


def find_sources(namespace: str, spec: Object) -> frozenset[ObjectRef]:
    """Return the objects that the definition is read from, other than the spec."""
    found = {each.ref for each in definition_sources.find_parameter_sources(namespace, spec)}
    found.update(each.ref for each in definition_sources.find_template_sources(namespace, spec))
    return frozenset(found) if found else NONE


def find_served_kinds(cluster: ClusterKinds, kinds: Collection[str]) -> list[Kind]:
    """Return the served kinds among kinds written as `apiVersion/Kind`. The other kinds have no objects.

    Omits Events, which revisions of earlier operator versions may list: the operator may lack the right to list them,
    and they expire.
    """
    found = (find_served(cluster, *name.rpartition("/")[::2]) for name in sorted(kinds))
    return [kind for kind in dict.fromkeys(found) if kind is not None and (kind.group, kind.name) not in EVENTS]


def find_served(cluster: ClusterKinds, api_version: str, name: str) -> Kind | None:
    """Return the kind in its served version: objects outlive the version that applied them."""
    found = cluster.kinds.find(api_version, name)
    if found is not None:
        return found
    group = api_version.rpartition("/")[0]
    return next((kind for kind in cluster.kinds.all() if (kind.group, kind.name) == (group, name)), None)


class FairSlots:
    """Like a semaphore, with turns for namespaces: one namespace never has all slots. See `FairTurns`."""

    def __init__(self, places: int) -> None:
        """Create it with all places free."""
        self._places = places
        self._turns = FairTurns()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        """The waiting coroutines by number."""
        self._numbers = itertools.count()

    def locked(self) -> bool:
        """Return whether a coroutine waits, or the next one would."""
        return bool(self._turns) or self._turns.in_flight >= self._places

    @contextlib.asynccontextmanager
    async def take(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a place, and have it until the end of the block."""
        number = str(next(self._numbers))
        granted = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._turns.add(namespace, number)
        self._admit()
        try:
            await granted
            yield
        finally:
            if self._waiting.pop(number, None) is not None:
                self._turns.discard(number)
            else:
                self._turns.end(number)
            self._admit()

    def _admit(self) -> None:
        while (number := self._turns.take(self._places)) is not None:
            granted = self._waiting.pop(number)
            # A cancelled coroutine returns its place as soon as it runs.
            if not granted.done():
                granted.set_result(None)


@dataclass(slots=True)
class RevisionNumbers:
    """The known numbers of one Stack's revisions; no two revisions share one.

    A revision may be stored although its request failed, and the cache may not show it yet. So a number that was tried
    for one definition is never tried for another.
    """

    _last: int = 0
    """The highest number that may be in use."""
    _tried: tuple[str, int] = ("", 0)
    """Hash of the last definition that a number was assigned to, and that number."""

    def take(self, numbers: Iterable[int]) -> None:
        """Record numbers that are in use."""
        self._last = max([self._last, *numbers])

    def assign(self, hashed: str) -> int:
        """Return a new number for the definition with that hash; repeated attempts get the same one."""
        if self._tried != (hashed, self._last):
            self._last += 1
            self._tried = hashed, self._last
        return self._last
