"""Cache of all objects of one kind of Stacks: Stacks, ResourceGroups, or instances of a StackDefinition.

Stores only the fields that reconciles need, and parses specs on demand.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeAlias

import orjson

from hearth.engine import cluster_objects
from hearth.engine.cluster_objects import ParsedSpec, StackObject
from hearth.kube.cache import object_store
from hearth.kube.cache.cache_budget import SpecRoom
from hearth.kube.cache.object_store import WatchedCache
from hearth.kube.cache.shard_filter import ShardFilter
from hearth.kube.client import api_requests, salvage
from hearth.kube.watch.reflector import Reflector, WatchConnection, WatchContext, WatchObserver, WatchOptions
from hearth.model import child, limits, names, packing
from hearth.model.api import status_fields
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.sharding import WHOLE, Share
from hearth.model.stack_tree import StackTree
from hearth.model.well_known_kinds import STACK
from hearth.plan.status import conditions
from hearth.template import resource_group
from hearth.template.instances import instance_form
from hearth.template.instances.instance_form import InstanceForm, InstanceForms

READ_ANNOTATIONS = frozenset(
    {text for text in vars(names).values() if isinstance(text, str) and text.startswith(f"{names.GROUP}/")}
).union(cluster_objects.COMMIT_ANNOTATIONS)
OWN_FINALIZERS = frozenset({names.FINALIZER, names.FINALIZER_ORPHAN})
SHARED_TEMPLATES = 256
"""Maximum number of shared templates."""
SHARED_BYTES = 16 * 1024
"""Maximum bytes of a shared template. A template may stay in memory although no Stack has it anymore."""
LARGE = 16 * 1024
"""Bytes from which `read` costs less than parsing the whole event."""
UNKNOWN = -1
"""A generation that no object has."""
HEAD = frozenset({"apiVersion", "kind", "metadata"})
SPEC, STATUS = b',"spec":{', b',"status":{'
"""Separators that delimit the spec. The API server writes the fields of a custom resource in alphabetical order, and
escapes quotes within texts. So the first match of `SPEC` ends the metadata, whose own members with that name are texts.
The last match of `STATUS` begins the status, unless it is within the status; the text after it is then not valid JSON.
"""

FindSpec: TypeAlias = Callable[[Object], object | None]
"""Returns the replacement for the spec of an object with that metadata, or None if its spec is unknown."""


class StackCache(WatchedCache[StackObject]):
    """Every Stack, or all Stacks of one namespace or shard. Its watch runs from `start` to `close`."""

    def __init__(  # noqa: PLR0913 -- each parameter is a separate choice
        self,
        connection: WatchConnection,
        on_change: Callable[[str], None],
        *,
        namespace: str = "",
        share: Share = WHOLE,
        options: WatchOptions | None = None,
        observer: WatchObserver | None = None,
        kind: Kind = STACK,
        tree: StackTree | None = None,
        on_elsewhere: Callable[[], None] = lambda: None,
        forms: InstanceForms | None = None,
    ) -> None:
        """Create the cache of one kind.

        on_change: gets the UID of a created, changed or deleted Stack; tree: shared with the caches of the other kinds;
        on_elsewhere: see `ShardFilter`; forms: of the instances of a StackDefinition, None for the operator's own kinds.
        """
        self.kind = kind
        self.forms = forms
        """The revisions of the StackDefinition of the kind; None for the operator's own kinds."""
        self._key = kind.name if forms is None else kind.key
        self._on_change = on_change
        self._store = object_store.ObjectStore(self)
        self._room = SpecRoom()
        self._templates: dict[bytes, bytes] = {}
        """The packed templates that Stacks share."""
        self._parsed = ParsedSpec(None)
        """The last large spec until it is used."""
        server = WatchContext(connection=connection, options=options or WatchOptions(), observer=observer)
        self.tree = tree if tree is not None else StackTree()
        """The nesting of all Stacks, including Stacks of other processes."""
        self._served = share
        self.others = ShardFilter(
            self._store, share, self.tree, kind=self._key, on_elsewhere=on_elsewhere, on_other=self._take_other
        )
        """The Stacks that other processes manage."""
        self._served_elsewhere: dict[str, StackObject] = {}
        """Instances that other processes serve, by UID. A rollout counts all of them."""
        handler = self._store if share.is_whole else self.others
        self._reflector = Reflector(server, api_requests.collection_path(kind, namespace), handler, name=kind.key)
        self._answered = asyncio.Event()
        self._reflector.on_denied = self._answered.set
        self._reflector.is_known = self._store.is_known

    async def wait_answered(self) -> str:
        """Wait until all were listed once, or the API server denies that; return its message, "" after a list."""
        await self._answered.wait()
        return "" if self.is_synced else self._reflector.denial

    def complete(self) -> None:
        """Complete a new list."""
        self._answered.set()

    def count_bytes(self) -> Mapping[str, float]:
        """Return the bytes of the stored specs and statuses by kind. Values that several Stacks share count for each of
        them.
        """
        found = self._store.records.values()
        size = sum(each.spec_size - each.omitted_size + len(each.packed_status) for each in found)
        return {self.kind.key: float(size)}

    def find_stack(self, uid: str) -> StackObject | None:
        """Return the Stack, or None if it does not exist."""
        return self._store.records.get(uid)

    def stacks(self) -> Collection[str]:
        """Return the UIDs of all Stacks."""
        return self._store.records.keys()

    def find_instances(self) -> list[StackObject]:
        """Return all instances of a StackDefinition, including instances that other processes serve."""
        return [*self._store.records.values(), *self._served_elsewhere.values()]

    def _take_other(self, uid: str, raw: Object | None) -> None:
        """Handle a Stack that another process serves. raw: None once none does. Its definition does not matter here."""
        if self.forms is None:
            return
        known = self._served_elsewhere.pop(uid, None)
        if raw is not None:
            made = parse_instance(raw, kind=self.kind, forms=self.forms)
            self._served_elsewhere[uid] = self._room.fit(made, known)
        self._room.replace(known, self._served_elsewhere.get(uid))
        self._on_change(uid)

    def _update(self, known: StackObject, stack: StackObject) -> None:
        """Replace the record of the same state of an object by another view of it."""
        fitting_stack = self._room.fit(stack, known)
        self._store.update(fitting_stack)
        self._room.replace(known, fitting_stack)

    def put(self, raw: Object) -> StackObject:
        """Store the response to a write of the operator; do not report that write, neither now nor on its watch event.

        The response may also show a change of another client. Report that at once, because its event brings no new
        version. That change may have handed the Stack over to another process.
        """
        if not self._served.is_whole and not self.others.is_own(raw):
            return self.parse(raw)
        return super().put(raw)

    def read_answer(self, text: bytes) -> Object | None:
        """Read the answer to a write of the operator for `put`. Returns None if its spec is not known, so that it must be parsed."""
        return read(text, self._find_spec)

    def _find_spec(self, metadata: Object) -> StackObject | None:
        """Return the record that has the spec of an object with this metadata, to take its place, or None if none has."""
        known = self._find_known(metadata)
        is_same = known is not None and known.generation == metadata.get("generation") and not known.defect
        return known if is_same else None

    def _find_known(self, metadata: Object) -> StackObject | None:
        # A restored API server may count its generations again, but only a new list shows that.
        return self._store.records.get(metadata["uid"]) if self._reflector.version else None

    def parse(self, raw: Object) -> StackObject:
        """Return the cached part of a Stack. Its spec may be the record that has it, see `read_answer`."""
        stated = raw.get("spec")
        known = stated if isinstance(stated, StackObject) else self._find_known(raw["metadata"])
        try:
            made = self._parse(raw, known)
        except TypeError:
            # A known spec was readable, so another part must be unreadable.
            is_known = known is stated
            pruned = salvage.prune({name: value for name, value in raw.items() if not is_known or name != "spec"})
            self._reflector.note_omission(pruned)
            return self._parse(pruned, known if is_known else None)
        return self._keep_parsed(raw, self._room.fit(made, self._store.records.get(made.uid)))

    def open(self, raw: Object) -> StackObject:
        """Store an object that was read, and return it with its spec parsed, whether or not that has room."""
        known = self.put(raw)
        # Its spec must be read again, in the form that the instance has now.
        whole = self._parse(raw, dataclasses.replace(known, generation=UNKNOWN))
        return whole.with_parsed_spec()

    def _parse(self, raw: Object, known: StackObject | None) -> StackObject:
        if self.forms is not None:
            return parse_instance(raw, kind=self.kind, forms=self.forms, known=known)
        return parse_stack(raw, kind=self._key, share=self._share, known=known)

    def move(self, uid: str, number: int) -> None:
        """Put an instance into the form of another revision of its StackDefinition, and report that."""
        known = self._store.records.get(uid)
        if self.forms is None or known is None or known.definition_revision == number:
            return
        self._update(known, put_into_form(known, self.forms.by_number[number], self.forms))
        self._on_change(uid)

    def renew_rights(self) -> None:
        """Give all instances the accounts and boundaries of the newest revision, and report the instances that it
        changes.
        """
        if self.forms is None:
            return
        for known in list(self._store.records.values()):
            if (renewed := renew_rights(known, self.forms)) is not known:
                self._update(known, renewed)
                self._on_change(known.uid)

    def _keep_parsed(self, raw: Object, stack: StackObject) -> StackObject:
        """Return the Stack with its changed spec as it was parsed, if that is large: it is about to be read.

        Only the last one is kept, so that a thousand changes at once take no more memory.
        """
        known = self._store.records.get(stack.uid)
        is_changed = known is not None and known.generation != stack.generation
        if not is_changed or stack.spec_size < LARGE or stack.definition or not isinstance(raw.get("spec"), dict):
            return stack
        self._parsed.take()
        self._parsed = ParsedSpec(read_spec(raw, kind=self._key))
        return dataclasses.replace(stack, arrived_spec=self._parsed)

    def _share(self, template: bytes) -> bytes:
        """Return the first equal template, so that Stacks of one template keep it once."""
        if len(template) > SHARED_BYTES:
            return template
        if len(self._templates) >= SHARED_TEMPLATES:
            self._templates.clear()
        return self._templates.setdefault(template, template)

    def replace(self, old: StackObject | None, new: StackObject | None, *, is_ours: bool) -> None:
        """Update a created, changed or deleted Stack."""
        either = new or old
        self._room.replace(old, new)
        if new is not None:
            self.tree.put(new.node)
        elif old is not None:
            self.tree.drop(old.uid)
        if either is None or (old is not None and new is not None and is_same(old, new)):
            return
        if is_ours and (old is None or new is None or not has_user_change(old, new)):
            return
        self._on_change(either.uid)


def parse_stack(
    raw: Object,
    *,
    kind: str = names.STACK,
    share: Callable[[bytes], bytes] = lambda template: template,
    known: StackObject | None = None,
) -> StackObject:
    """Convert an object to the engine's view of a Stack.

    share: return an equal template that is kept already; known: an earlier state, whose spec is kept if it is the same.
    """
    metadata, status = raw["metadata"], raw.get("status") or {}
    phase = status.get("phase") if isinstance(status, dict) else ""
    true_conditions, in_progress_since = conditions.summarize(status)
    omission = salvage.find_omission(raw)
    defect = omission.within("spec") if omission is not None else None
    generation = metadata.get("generation", 0)
    is_same_spec = known is not None and known.generation == generation and defect is None and not known.defect
    if known is not None and is_same_spec:
        packed = PackedSpec(known.packed_spec, known.packed_template, known.packed_parameters)
        account, kubeconfig = known.service_account, known.kubeconfig
    else:
        packed = pack_spec(read_spec(raw, kind=kind), share)
        account, kubeconfig = find_account(raw.get("spec")), cluster_objects.find_kubeconfig(raw.get("spec"))
    return StackObject(
        name=metadata["name"],
        namespace=sys.intern(metadata["namespace"]),
        uid=metadata["uid"],
        generation=generation,
        resource_version=int(metadata["resourceVersion"]),
        deleting="deletionTimestamp" in metadata,
        finalizers=choose_finalizers(metadata),
        annotations=choose_annotations(metadata),
        created_at=metadata.get("creationTimestamp") or "",
        kind=kind,
        parent=(metadata.get("labels") or {}).get(names.LABEL_STACK_UID, ""),
        author=cluster_objects.find_author(metadata.get("managedFields") or ()),
        service_account=account,
        kubeconfig=kubeconfig,
        packed_spec=packed.settings,
        packed_template=packed.template,
        packed_parameters=packed.parameters,
        packed_status=status_fields.pack(status),
        omitted_size=known.omitted_size if known is not None and is_same_spec else 0,
        phase=sys.intern(phase) if isinstance(phase, str) else "",
        true_conditions=true_conditions,
        in_progress_since=in_progress_since,
        is_size_scaled=kind == names.GROUP_KIND and child.is_scaled(metadata.get("managedFields") or ()),
        defect=str(defect or ""),
    )


def choose_finalizers(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the finalizers; of more than `STACK_FINALIZERS_KEPT` the first, and the finalizers of Hearth and
    Kubernetes.
    """
    stated = metadata.get("finalizers") or ()
    return tuple(
        sys.intern(name)
        for number, name in enumerate(stated)
        if number < limits.STACK_FINALIZERS_KEPT or name in OWN_FINALIZERS
    )


def choose_annotations(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations that the engine reads: a Stack may have tens of thousands of others."""
    annotations = metadata.get("annotations") or {}
    return {key: annotations[key] for key in READ_ANNOTATIONS if key in annotations} if annotations else annotations


def pack_labels(raw: Object) -> bytes:
    """Return the labels of an instance, up to the same number."""
    return packing.pack(raw["metadata"].get("labels") or {})


def parse_instance(raw: Object, *, kind: Kind, forms: InstanceForms, known: StackObject | None = None) -> StackObject:
    """Convert an instance of a StackDefinition to the engine's view of a Stack. known: an earlier state."""
    is_current = known is not None and known.generation == raw["metadata"].get("generation", 0)
    if known is not None and is_current and not known.defect and known.definition_revision in forms.by_number:
        parsed = parse_stack(raw, kind=kind.key, known=known)
        return dataclasses.replace(
            parsed,
            api_version=known.api_version,
            definition=known.definition,
            definition_revision=known.definition_revision,
            definer=forms.newest.definer,
            minimum_revision=forms.newest.minimum,
            pin_mistake=known.pin_mistake,
            packed_labels=pack_labels(raw),
            replicas=known.replicas,
            packed_stated=known.packed_stated,
        )
    spec = raw.get("spec") or {}
    before = known.definition_revision if known is not None else instance_form.find_last(raw.get("status"))
    form = forms.choose(spec, before)
    parsed = parse_stack({**raw, "spec": {}}, kind=kind.key)
    labels = pack_labels(raw)
    stated = dataclasses.replace(
        parsed, api_version=kind.api_version, packed_labels=labels, packed_stated=packing.pack(spec)
    )
    return put_into_form(stated, form, forms)


def put_into_form(stack: StackObject, form: InstanceForm, forms: InstanceForms) -> StackObject:
    """Return an instance with its spec in the form that a revision of its StackDefinition gives it.

    forms: the newest one determines the account that writes the instance's objects, so that rights can be revoked.
    """
    spec: Object = orjson.loads(stack.packed_stated)
    newest = forms.newest
    stated, named = form.find_parameters(spec)
    settings = form.make_settings(form.find_options(spec), named)
    return dataclasses.replace(
        stack,
        definition=form.definition,
        definition_revision=form.number,
        service_account=find_account(settings),
        kubeconfig=cluster_objects.find_kubeconfig(settings),
        definer=newest.definer,
        minimum_revision=newest.minimum,
        pin_mistake=forms.find_pin_mistake(spec, form.number),
        replicas=form.find_replicas(stated),
        packed_spec=packing.pack(settings),
        packed_template=form.packed_template,
        packed_parameters=packing.pack(stated),
        arrived_spec=None,
        parsed_spec=None,
    )


def renew_rights(stack: StackObject, forms: InstanceForms) -> StackObject:
    """Return an instance with the account, boundary and pin of the newest revision; the same one if it has them."""
    newest, form = forms.newest, forms.by_number.get(stack.definition_revision)
    is_same = (stack.definer, stack.minimum_revision) == (newest.definer, newest.minimum) and not stack.pin_mistake
    return stack if is_same or form is None else put_into_form(stack, form, forms)


def read_spec(raw: Object, *, kind: str) -> Object:
    """Return the spec of an object in the form of a Stack's."""
    spec = raw.get("spec") or {}
    return resource_group.make_spec(spec) if kind == names.GROUP_KIND else spec


class PackedSpec(NamedTuple):
    """The JSON of the parts of a spec. Missing parts are empty."""

    settings: bytes
    template: bytes = b""
    parameters: bytes = b""


def pack_spec(spec: object, share: Callable[[bytes], bytes]) -> PackedSpec:
    """Pack a spec. share: see `parse_stack`."""
    if not isinstance(spec, dict):
        return PackedSpec(packing.pack(spec))
    settings = {key: value for key, value in spec.items() if key not in ("template", "parameters")}
    return PackedSpec(
        packing.pack(settings),
        share(packing.pack(spec["template"])) if "template" in spec else b"",
        packing.pack(spec["parameters"]) if "parameters" in spec else b"",
    )


def find_account(spec: object) -> str:
    """Return the ServiceAccount that a spec names, also if it is not a valid name; "" for none."""
    named = spec.get("serviceAccountName") if isinstance(spec, dict) else None
    return str(named) if named is not None else ""


def has_user_change(old: StackObject, new: StackObject) -> bool:
    """Return whether a part that only other clients write differs: the spec, an annotation, or the deletion."""
    return old.generation != new.generation or old.annotations != new.annotations or old.deleting != new.deleting


def is_same(old: StackObject, new: StackObject) -> bool:
    """Return whether only the resourceVersion and uncached parts differ; the generation represents the spec."""
    return (
        old.generation == new.generation
        and old.defect == new.defect
        and old.packed_status == new.packed_status
        and old.annotations == new.annotations
        and old.finalizers == new.finalizers
        and old.deleting == new.deleting
    )


def read(text: bytes, find: FindSpec) -> Object | None:
    """Return the object in a text, with the result of `find` in place of its spec.

    Parses only the parts before and after the spec. The answer to each write of a status is such a text. Returns None
    if it must be parsed as a whole: it is small, its fields are in another order, its spec is not known, or it has no
    status.
    """
    if len(text) < LARGE:
        return None
    spec, status = text.find(SPEC), text.rfind(STATUS)
    if not 0 <= spec < status or len(text) - status + spec > limits.WIRE_VALUES:
        return None
    try:
        head: Any = orjson.loads(text[:spec] + b"}")
        metadata = head["metadata"]
        known = find(metadata) if isinstance(metadata, dict) else None
        if known is None:
            return None
        tail: Any = orjson.loads(b"{" + text[status + 1 :])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    # If other fields follow the status, another JSON encoder wrote the text.
    return {**head, "spec": known, **tail} if head.keys() <= HEAD and tail.keys() == {"status"} else None
